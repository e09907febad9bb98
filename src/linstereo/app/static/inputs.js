// The pair and its calibration: dropped, chosen, or one of the examples.

const LEFT = /(^|[^a-z])(left|l|im0|cam0|image_?0|view1)([^a-z]|$)|_2_|image_2|(^|[^0-9])0$/i;
const RIGHT = /(^|[^a-z])(right|r|im1|cam1|image_?1|view5)([^a-z]|$)|image_3|(^|[^0-9])1$/i;
const stem = (name) => name.replace(/\.[^.]*$/, "");
const isCalibration = (file) => /\.(json|txt|ya?ml|xml)$/i.test(file.name);

export const EXAMPLES = {
  room: { left: "room_left.jpg", right: "room_right.jpg", focal: 560, baseline: 0.12 },
  reef: { left: "reef_left.jpg", right: "reef_right.jpg", focal: 420, baseline: 0.12 },
};

const byId = (id) => document.getElementById(id);

/** Holds the chosen files; calls `onChange` whenever they change. */
export class Inputs {
  constructor({ onChange, limits }) {
    this.files = { left: null, right: null };
    this.calibration = [];
    this.onChange = onChange;
    this.limits = limits;
    for (const drop of document.querySelectorAll(".drop")) {
      const input = drop.querySelector("input");
      input.addEventListener("change", () => { this.take([...input.files], drop.dataset.side); input.value = ""; });
    }
    byId("calibration-file").addEventListener("change", (event) => { this.calibration = [...event.target.files]; onChange(); });
    byId("swap").addEventListener("click", () => this.swap());
    for (const radio of document.querySelectorAll("input[name=layout], input[name=calibration]")) {
      radio.addEventListener("change", () => this.update());
    }
    this.watchDrops();
    this.update();
  }

  get single() {
    return document.querySelector("input[name=layout]:checked").value === "one";
  }

  get complete() {
    return Boolean(this.files.left && (this.single || this.files.right));
  }

  watchDrops() {
    let depth = 0;
    const mark = () => document.body.classList.toggle("dragging", depth > 0);
    window.addEventListener("dragenter", (event) => { depth++; mark(); event.preventDefault(); });
    window.addEventListener("dragleave", () => { depth = Math.max(0, depth - 1); mark(); });
    window.addEventListener("dragover", (event) => event.preventDefault());
    window.addEventListener("drop", (event) => {
      event.preventDefault();
      depth = 0;
      mark();
      this.take([...event.dataTransfer.files], event.target.closest?.(".drop")?.dataset.side);
    });
  }

  /** Take one or two images, and calibration files among them; `side` is where a single one goes. */
  take(files, side) {
    const calibration = files.filter(isCalibration);
    const images = files.filter((file) => !isCalibration(file));
    if (calibration.length) {
      this.calibration = calibration;
      const transfer = new DataTransfer();
      for (const file of calibration) transfer.items.add(file);
      byId("calibration-file").files = transfer.files;
      document.querySelector("input[name=calibration][value=file]").checked = true;
    }
    if (images.length >= 2) {
      const [first, second] = images;
      const swapped = RIGHT.test(stem(first.name)) && LEFT.test(stem(second.name));
      document.querySelector("input[name=layout][value=two]").checked = true;
      this.files = swapped ? { left: second, right: first } : { left: first, right: second };
    } else if (images.length === 1) {
      const free = this.single || !this.files.left ? "left" : "right";
      this.files[side ?? free] = images[0];
    }
    this.update();
  }

  swap() {
    this.files = { left: this.files.right, right: this.files.left };
    this.update();
  }

  async example(name) {
    const example = EXAMPLES[name];
    const fetched = await Promise.all([example.left, example.right].map(async (file) => {
      const response = await fetch(`/static/examples/${file}`);
      return new File([await response.blob()], file, { type: "image/jpeg" });
    }));
    document.querySelector("input[name=layout][value=two]").checked = true;
    document.querySelector("input[name=calibration][value=numbers]").checked = true;
    byId("focal").value = example.focal;
    byId("baseline").value = example.baseline;
    this.files = { left: fetched[0], right: fetched[1] };
    this.update();
  }

  /** Show what is chosen. */
  update() {
    byId("drops").classList.toggle("one", this.single);
    const kind = document.querySelector("input[name=calibration]:checked").value;
    for (const part of document.querySelectorAll("[data-calibration]")) part.hidden = part.dataset.calibration !== kind;
    for (const drop of document.querySelectorAll(".drop")) this.showFile(drop, this.files[drop.dataset.side]);
    this.onChange();
  }

  showFile(drop, file) {
    const side = drop.dataset.side;
    const image = drop.querySelector("img");
    const title = this.single ? "Both images, left half first" : `${side === "left" ? "Left" : "Right"} image`;
    drop.querySelector(".drop-name").textContent = title;
    if (drop.file === file) return;
    drop.file = file;
    drop.classList.toggle("filled", Boolean(file));
    drop.querySelector(".drop-hint").textContent = file ? file.name : "drop or choose";
    URL.revokeObjectURL(image.src);
    image.hidden = true;
    if (!file) return;
    const trial = new Image();
    trial.onload = () => {
      if (drop.file !== file) return;
      drop.querySelector(".drop-hint").textContent = `${trial.naturalWidth} x ${trial.naturalHeight} px`;
      if (trial.naturalWidth * trial.naturalHeight > this.limits().pixels) return; // not painted, so not decoded
      image.src = trial.src;
      image.hidden = false;
    };
    trial.src = URL.createObjectURL(file);
  }

  /** The request, or a sentence about what is missing in an Error. */
  form() {
    const form = new FormData();
    const total = [this.files.left, this.files.right, ...this.calibration].reduce((sum, file) => sum + (file?.size ?? 0), 0);
    const most = this.limits().upload_bytes;
    if (total > most) throw new Error(`The files have ${(total / 1e6).toFixed(0)} MB; this server takes ${(most / 1e6).toFixed(0)} MB. Use smaller images.`);
    if (this.single) form.append("pair", this.files.left, "pair");
    else {
      form.append("left", this.files.left, "left");
      form.append("right", this.files.right, "right");
    }
    const kind = document.querySelector("input[name=calibration]:checked").value;
    if (kind === "numbers") {
      const [focal, baseline] = ["focal", "baseline"].map((id) => byId(id).value.trim());
      if (!(Number(focal) > 0 && Number(baseline) > 0)) throw new Error("Give the focal length in pixels and the baseline in metres, both greater than 0, or choose no calibration.");
      form.append("focal", focal);
      form.append("baseline", baseline);
    } else if (kind === "file") {
      if (!this.calibration.length) throw new Error("Choose the calibration file, or choose no calibration.");
      for (const file of this.calibration) form.append("calibration", file);
      if (byId("unit").value) form.append("unit", byId("unit").value);
      for (const [field, id] of [["rectified", "rectified"], ["fisheye", "fisheye"], ["scale_calibration", "scale-calibration"]]) {
        if (byId(id).checked) form.append(field, "true");
      }
    }
    form.append("iterations", byId("iterations").value);
    if (byId("want-views").checked) { form.append("confidence", "true"); form.append("occlusion", "true"); }
    if (byId("want-sgbm").checked) form.append("sgbm", "true");
    return form;
  }
}
