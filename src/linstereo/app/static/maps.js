// Two pictures with a slider between them, the value under the cursor, and the distance between two points.
import { paint } from "./colours.js";

const number = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Shows maps of one size on a canvas. */
export class MapViewer {
  constructor({ canvas, marks, divider, readout, stage }) {
    Object.assign(this, { canvas, marks, divider, readout, stage });
    this.context = canvas.getContext("2d");
    this.share = 0.5; // of the width, where the slider is
    this.cursor = null; // [x, y] of a pixel
    this.points = []; // at most two pixels to measure between
    this.scene = null;
    this.pictures = {};
    this.watch();
  }

  /** Show a scene: width, height, maps by name, calibration; `left` and `right` name what is on each side. */
  show(scene) {
    const same = this.scene && this.scene.width === scene.width && this.scene.height === scene.height;
    this.scene = scene;
    if (!same) {
      this.canvas.width = scene.width;
      this.canvas.height = scene.height;
      this.marks.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
      this.points = [];
      this.cursor = null;
    }
    this.divider.hidden = false;
    this.draw();
    this.tell();
  }

  /** Paint both sides and the overlays. */
  draw() {
    const { scene, context } = this;
    if (!scene) return;
    const { width, height } = scene;
    const border = Math.round(this.share * width);
    context.clearRect(0, 0, width, height);
    const side = (name, from, to) => {
      if (to <= from) return;
      const picture = this.picture(name);
      const scale = picture.width / width;
      context.drawImage(picture, from * scale, 0, (to - from) * scale, picture.height, from, 0, to - from, height);
    };
    side(scene.leftSide, 0, border);
    side(scene.rightSide, border, width);
    if (scene.dim && scene.maps.confidence) this.overlay("dim", (out, i) => {
      out[3] = Math.round(225 * (1 - scene.maps.confidence[i]));
    });
    if (scene.mark && scene.maps.occlusion) this.overlay("mark", (out, i, x, y) => {
      if (!scene.maps.occlusion[i]) return;
      const light = (x + y) % 8 < 4;
      out[0] = light ? 255 : 20; out[1] = light ? 255 : 20; out[2] = light ? 255 : 20; out[3] = 215;
    });
    this.divider.style.left = `${100 * this.share}%`;
    this.divider.setAttribute("aria-valuenow", Math.round(100 * this.share));
  }

  /** A picture of a map, painted again only if its colours changed. */
  picture(name) {
    const { scene } = this;
    const image = scene.images[name];
    if (image) return image;
    const values = scene.maps[name];
    const colours = scene.colours(name);
    const key = `${colours.low} ${colours.high} ${colours.reverse}`;
    const known = this.pictures[name];
    if (known && known.values === values && known.key === key) return known.picture;
    const size = scene.sizes?.[name] ?? scene;
    const picture = new OffscreenCanvas(size.width, size.height);
    picture.getContext("2d").putImageData(paint(values, size.width, size.height, colours), 0, 0);
    this.pictures[name] = { values, key, picture };
    return picture;
  }

  /** Draw what `pixel` fills in over both sides. */
  overlay(name, pixel) {
    const { width, height } = this.scene;
    const known = this.pictures[name];
    const values = this.scene.maps[name === "dim" ? "confidence" : "occlusion"];
    if (!known || known.values !== values) {
      const image = new ImageData(width, height);
      const out = new Uint8ClampedArray(4);
      for (let y = 0, i = 0; y < height; y++) for (let x = 0; x < width; x++, i++) {
        out.fill(0);
        pixel(out, i, x, y);
        image.data.set(out, 4 * i);
      }
      const picture = new OffscreenCanvas(width, height);
      picture.getContext("2d").putImageData(image, 0, 0);
      this.pictures[name] = { values, picture };
    }
    this.context.drawImage(this.pictures[name].picture, 0, 0);
  }

  /** The point [x, y, z] of a pixel in metres, or null. */
  point([x, y]) {
    const { maps, width, calibration } = this.scene;
    const depth = maps.depth?.[y * width + x];
    if (!calibration || !Number.isFinite(depth)) return null;
    return [(x - calibration.cx) / calibration.focal * depth, (y - calibration.cy) / (calibration.focal * calibration.aspect) * depth, depth];
  }

  /** Metres between the two marked points, or null. */
  distance() {
    const [a, b] = this.points.map((pixel) => this.point(pixel));
    return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) : null;
  }

  watch() {
    const { canvas, divider, stage } = this;
    const pixel = (event) => {
      const box = canvas.getBoundingClientRect();
      const x = Math.floor((event.clientX - box.left) / box.width * canvas.width);
      const y = Math.floor((event.clientY - box.top) / box.height * canvas.height);
      return [Math.min(Math.max(x, 0), canvas.width - 1), Math.min(Math.max(y, 0), canvas.height - 1)];
    };
    const move = (cursor) => { if (this.scene?.values) { this.cursor = cursor; this.tell(); } };
    canvas.addEventListener("pointermove", (event) => move(pixel(event)));
    canvas.addEventListener("pointerleave", () => { if (document.activeElement !== canvas) { this.cursor = null; this.tell(); } });
    canvas.addEventListener("click", (event) => { move(pixel(event)); this.mark(); });
    canvas.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 10 : 1;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.key in moves) {
        const [x, y] = this.cursor ?? [canvas.width >> 1, canvas.height >> 1];
        const [dx, dy] = moves[event.key];
        move([Math.min(Math.max(x + dx, 0), canvas.width - 1), Math.min(Math.max(y + dy, 0), canvas.height - 1)]);
      } else if (event.key === "Enter" || event.key === " ") this.mark();
      else if (event.key === "Escape") { this.points = []; this.tell(); }
      else return;
      event.preventDefault();
    });
    const slide = (share) => { this.share = Math.min(Math.max(share, 0), 1); this.draw(); };
    divider.addEventListener("pointerdown", (event) => { divider.setPointerCapture(event.pointerId); event.preventDefault(); divider.focus({ focusVisible: false }); });
    divider.addEventListener("pointermove", (event) => {
      if (!divider.hasPointerCapture(event.pointerId)) return;
      const box = stage.getBoundingClientRect();
      slide((event.clientX - box.left) / box.width);
    });
    divider.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -0.02, ArrowRight: 0.02, ArrowDown: -0.02, ArrowUp: 0.02, PageDown: -0.1, PageUp: 0.1 };
      if (event.key in steps) slide(this.share + steps[event.key]);
      else if (event.key === "Home") slide(0);
      else if (event.key === "End") slide(1);
      else return;
      event.preventDefault();
    });
  }

  mark() {
    if (!this.scene?.values || !this.cursor) return;
    if (this.points.length === 2) this.points = [];
    this.points.push(this.cursor);
    this.tell();
  }

  /** Say what is under the cursor and between the marked points. */
  tell() {
    this.drawMarks();
    const { scene, cursor, readout } = this;
    if (!scene?.values) return;
    const parts = [];
    const add = (key, text, name) => parts.push([key, text, name]);
    if (cursor) {
      const i = cursor[1] * scene.width + cursor[0];
      add("pixel", `${cursor[0]}, ${cursor[1]}`, "pixel");
      add("disparity", `${number(scene.maps.disparity[i], 2)} px`, "disparity");
      if (scene.maps.depth) add("depth", Number.isFinite(scene.maps.depth[i]) ? `${number(scene.maps.depth[i], 3)} m` : "none", "depth");
      if (scene.maps.confidence) add("confidence", number(scene.maps.confidence[i], 2), "confidence");
      if (scene.maps.sgbm) add("SGBM", `${number(scene.maps.sgbm[i], 2)} px`, "sgbm");
      if (scene.maps.occlusion?.[i]) add("", "occluded", "occluded");
    }
    if (this.points.length === 2) {
      const metres = this.distance();
      add("distance", metres === null ? (scene.calibration ? "no depth there" : "needs a calibration") : `${number(metres, 3)} m`, "distance");
    } else if (this.points.length === 1) add("", "mark a second point to measure", "hint");
    readout.replaceChildren(...parts.map(([key, text, name]) => {
      const span = document.createElement("span");
      const label = document.createElement("span");
      label.className = "key";
      label.textContent = key;
      const value = document.createElement("b");
      value.textContent = text;
      value.dataset.value = name;
      span.append(...(key ? [label, value] : [value]));
      return span;
    }));
    if (!parts.length) {
      const hint = document.createElement("span");
      hint.className = "faint";
      hint.textContent = "Point at the picture to read its values; click two points to measure between them.";
      readout.append(hint);
    }
  }

  drawMarks() {
    const space = "http://www.w3.org/2000/svg";
    const shapes = [];
    const shape = (kind, attributes) => {
      const element = document.createElementNS(space, kind);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      element.setAttribute("vector-effect", "non-scaling-stroke");
      shapes.push(element);
    };
    const centre = ([x, y]) => [x + 0.5, y + 0.5];
    const radius = (this.scene?.width ?? 640) / 110;
    if (this.points.length === 2) {
      const [[x1, y1], [x2, y2]] = this.points.map(centre);
      for (const [stroke, width] of [["#000", 4], ["#fff", 2]]) shape("line", { x1, y1, x2, y2, stroke, "stroke-width": width });
    }
    for (const [cx, cy] of this.points.map(centre)) for (const [stroke, width] of [["#000", 4], ["#fff", 2]]) shape("circle", { cx, cy, r: radius, fill: "none", stroke, "stroke-width": width });
    if (this.cursor && document.activeElement === this.canvas) {
      const [x, y] = centre(this.cursor);
      for (const [stroke, width] of [["#000", 3], ["#fff", 1.5]]) {
        shape("line", { x1: x - 2 * radius, y1: y, x2: x + 2 * radius, y2: y, stroke, "stroke-width": width });
        shape("line", { x1: x, y1: y - 2 * radius, x2: x, y2: y + 2 * radius, stroke, "stroke-width": width });
      }
    }
    this.marks.replaceChildren(...shapes);
  }
}
