// The point cloud: turned with mouse, touch or keys, coloured by image, depth or confidence.
import * as THREE from "three";
import { OrbitControls } from "./vendor/three/OrbitControls.js";
import { level, turbo } from "./colours.js";

const MOST = 600000; // points that are drawn
const VERTEX = `
attribute vec3 tint;
attribute float sure;
uniform float least;
uniform float size;
varying vec3 shade;
void main() {
  shade = tint;
  vec4 place = modelViewMatrix * vec4(position, 1.0);
  gl_Position = projectionMatrix * place;
  gl_PointSize = clamp(size * position.z / place.z, 1.0, 24.0); // a pixel covers more of what is far away
  if (sure < least) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
}`;
const FRAGMENT = `
varying vec3 shade;
void main() { gl_FragColor = vec4(shade, 1.0); }`;

/** The probability that a depth is off by less than 5 %, from that of its disparity being off by less than 1 px or 5 %, as in the PLY file. */
function depthConfidence(confidence, disparity, doffs) {
  const ratio = 0.05 * (disparity + doffs) / Math.max(1, 0.05 * disparity);
  const odds = confidence * Math.min(ratio, 1) ** 1.5; // times 1 - confidence
  return odds > 0 ? odds / (odds + 1 - confidence) : 0;
}

/** Shows the points of one scene. */
export class CloudViewer {
  constructor(canvas) {
    this.canvas = canvas;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: false, alpha: true });
    this.renderer.outputColorSpace = THREE.LinearSRGBColorSpace; // colours are shown as they are
    this.camera = new THREE.PerspectiveCamera(50, 4 / 3, 0.01, 1000);
    this.scene = new THREE.Scene();
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.addEventListener("change", () => this.render());
    this.points = null;
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.fit()).observe(canvas);
  }

  /** Make points of the pixels that are neither occluded nor at an edge, as the PLY file holds them; without a calibration a usual camera is assumed, and the scale means nothing. */
  show({ width, height, disparity, pixels, confidence, occlusion, edges, calibration }) {
    const camera = calibration ?? { focal: width, baseline: 0.1, cx: (width - 1) / 2, cy: (height - 1) / 2, doffs: 0, aspect: 1 };
    const far = camera.focal * camera.baseline; // where a point moves by one pixel between the images
    const step = Math.max(1, Math.ceil(Math.sqrt(width * height / MOST)));
    const kept = [];
    for (let y = 0; y < height; y += step) for (let x = 0; x < width; x += step) {
      const i = y * width + x;
      const depth = camera.focal * camera.baseline / (disparity[i] + camera.doffs);
      if (Number.isFinite(depth) && depth > 0 && depth <= far && !edges[i] && !occlusion?.[i]) kept.push(i, depth);
    }
    const count = kept.length / 2;
    const place = new Float32Array(3 * count);
    this.sure = new Float32Array(count);
    this.depth = new Float32Array(count);
    this.image = new Float32Array(3 * count);
    for (let n = 0; n < count; n++) {
      const i = kept[2 * n];
      const depth = kept[2 * n + 1];
      place[3 * n] = (i % width - camera.cx) / camera.focal * depth;
      place[3 * n + 1] = -(Math.floor(i / width) - camera.cy) / (camera.focal * camera.aspect) * depth;
      place[3 * n + 2] = -depth;
      this.depth[n] = depth;
      this.sure[n] = confidence ? depthConfidence(confidence[i], disparity[i], camera.doffs) : 1;
      for (let c = 0; c < 3; c++) this.image[3 * n + c] = pixels[4 * i + c] / 255;
    }
    this.dispose();
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(place, 3));
    geometry.setAttribute("tint", new THREE.BufferAttribute(this.image.slice(), 3));
    geometry.setAttribute("sure", new THREE.BufferAttribute(this.sure, 1));
    this.uniforms = { least: { value: 0 }, size: { value: 1 } };
    const material = new THREE.ShaderMaterial({ vertexShader: VERTEX, fragmentShader: FRAGMENT, uniforms: this.uniforms });
    this.points = new THREE.Points(geometry, material);
    this.points.frustumCulled = false;
    this.scene.add(this.points);
    this.spacing = step / camera.focal;
    const sorted = this.depth.slice().sort();
    this.near = sorted[Math.floor(0.02 * count)] ?? 1;
    this.far = sorted[Math.floor(0.98 * count)] ?? 2;
    this.middle = 2 / (1 / this.near + 1 / this.far); // in the middle of the disparities
    this.view = { fov: 2 * Math.atan(height / (2 * camera.focal * camera.aspect)) * 180 / Math.PI };
    this.reset();
  }

  /** Colour by "image", "depth" or "confidence". */
  colourBy(kind) {
    if (!this.points) return;
    const tint = this.points.geometry.getAttribute("tint");
    if (kind === "image") tint.array.set(this.image);
    else for (let n = 0; n < this.depth.length; n++) {
      const colour = kind === "depth" ? level(this.depth[n], this.near, this.far, true) : level(this.sure[n], 0, 1, false);
      for (let c = 0; c < 3; c++) tint.array[3 * n + c] = turbo[3 * Math.max(colour, 0) + c] / 255;
    }
    tint.needsUpdate = true;
    this.render();
  }

  /** Leave out points of a lower confidence; returns how many are left. */
  filter(least) {
    if (!this.points) return 0;
    this.uniforms.least.value = least;
    this.render();
    let left = 0;
    for (const sure of this.sure) if (sure >= least) left++;
    return left;
  }

  get count() {
    return this.points ? this.depth.length : 0;
  }

  /** Look as the left camera does, from a little farther away and to the side, so that depth is seen at once. */
  reset() {
    if (!this.points) return;
    const target = new THREE.Vector3(0, 0, -this.middle);
    this.camera.fov = Math.min(Math.max(this.view.fov, 20), 75);
    this.camera.near = this.near / 50;
    this.camera.far = this.far * 50;
    const offset = new THREE.Vector3(0, 0, this.middle * 1.2);
    offset.applyAxisAngle(new THREE.Vector3(1, 0, 0), -0.16).applyAxisAngle(new THREE.Vector3(0, 1, 0), 0.22);
    this.camera.position.copy(target).add(offset);
    this.controls.target.copy(target);
    this.controls.update();
    this.fit();
  }

  onKey(event) {
    if (!this.points) return;
    const angle = event.shiftKey ? 0.25 : 0.08;
    const turns = { ArrowLeft: [-angle, 0], ArrowRight: [angle, 0], ArrowUp: [0, -angle], ArrowDown: [0, angle] };
    const zooms = { "+": 0.9, "=": 0.9, "-": 1 / 0.9 };
    const offset = this.camera.position.clone().sub(this.controls.target);
    if (event.key in turns) {
      const place = new THREE.Spherical().setFromVector3(offset);
      place.theta += turns[event.key][0];
      place.phi = Math.min(Math.max(place.phi + turns[event.key][1], 0.05), Math.PI - 0.05);
      offset.setFromSpherical(place);
    } else if (event.key in zooms) offset.multiplyScalar(zooms[event.key]);
    else if (event.key === "r" || event.key === "R") { this.reset(); return; }
    else return;
    event.preventDefault();
    this.camera.position.copy(this.controls.target).add(offset);
    this.controls.update();
    this.render();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    if (this.points) {
      const pixels = height * this.renderer.getPixelRatio() / (2 * Math.tan(this.camera.fov * Math.PI / 360));
      this.uniforms.size.value = 1.5 * pixels * this.spacing;
    }
    this.render();
  }

  render() {
    this.renderer.render(this.scene, this.camera);
    const turned = new THREE.Spherical().setFromVector3(this.camera.position.clone().sub(this.controls.target));
    this.canvas.dataset.view = [turned.theta, turned.phi, turned.radius].map((value) => value.toFixed(4)).join(" ");
  }

  dispose() {
    if (!this.points) return;
    this.scene.remove(this.points);
    this.points.geometry.dispose();
    this.points.material.dispose();
    this.points = null;
  }
}
