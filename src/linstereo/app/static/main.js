// The page: from the chosen pair to maps, cloud, times and downloads.
import { ServerError, fetchArray, fetchPicture, fileAddress, health, predict, previewValues, setToken } from "./api.js";
import { rangeOf, turbo } from "./colours.js";
import { Inputs } from "./inputs.js";
import { MapViewer } from "./maps.js";

const byId = (id) => document.getElementById(id);
const STAGES = {
  read: "Reading", rectify: "Rectifying", check: "Checking the pair", network: "Network", features: "Features and volume",
  refine: "Refinement", second_view: "Second view", sgbm: "SGBM (OpenCV)",
};
const UNITS = { disparity: "px", sgbm: "px", depth: "m", confidence: "" };
const TITLES = { left: "Left image", right: "Right image", disparity: "Disparity", depth: "Depth", confidence: "Confidence", sgbm: "SGBM disparity" };

let limits = { pixels: 16e6, upload_bytes: 64e6, iterations: 64 };
let running = null; // AbortController of the request under way
let result = null; // what the last run gave
let ranges = {}; // colours by map

// --- server -----------------------------------------------------------------------------------------------------

const hash = new URLSearchParams(location.hash.slice(1));
if (hash.get("token")) {
  setToken(hash.get("token"));
  history.replaceState(null, "", location.pathname);
}

async function checkServer(first = false) {
  const box = byId("server");
  try {
    const state = await health();
    limits = state.limits;
    box.dataset.state = "ok";
    byId("server-text").textContent = `${state.model.name} on ${state.model.device}`;
    if (first) {
      byId("iterations").value = state.model.iterations;
      byId("iterations-text").value = state.model.iterations;
      if (!state.model.trained) note(["The weights of this model are random, not trained: its results mean nothing."]);
    }
  } catch {
    box.dataset.state = "gone";
    byId("server-text").textContent = "server is gone";
  }
}
checkServer(true);
setInterval(() => { if (!document.hidden) checkServer(); }, 10000);

// --- inputs -----------------------------------------------------------------------------------------------------

let inputs = null; // not there yet when it calls back for the first time
inputs = new Inputs({ onChange: () => updateRun(), limits: () => limits });
byId("iterations").addEventListener("input", (event) => { byId("iterations-text").value = event.target.value; });
for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", async () => {
    try {
      await inputs.example(button.dataset.example);
      run();
    } catch {
      fail(new ServerError("The example cannot be loaded: the server cannot be reached. Start it again with “linstereo serve”."));
    }
  });
}
byId("run").addEventListener("click", () => run());
byId("cancel").addEventListener("click", () => running?.abort());

function updateRun() {
  byId("run").disabled = running !== null || !inputs?.complete;
  byId("cancel").hidden = running === null;
}

// --- a run ------------------------------------------------------------------------------------------------------

async function run() {
  running?.abort();
  let form;
  clearMessages();
  try {
    form = inputs.form();
  } catch (error) {
    fail(error);
    return;
  }
  const own = running = new AbortController();
  const views = byId("want-views").checked;
  updateRun();
  progress(0, "Sending the images");
  const local = await localPicture();
  const found = [];
  try {
    const done = await predict(form, {
      signal: own.signal,
      onEvent: (event) => {
        if (event.event === "note") note(found.push(event.text) && found);
        else follow(event, local, views);
      },
    });
    progress(100, "Loading the maps");
    await show(done);
    const seconds = done.stages.reduce((sum, stage) => sum + stage.seconds, 0);
    status(`${done.width} x ${done.height} px, T = ${done.iterations}, ${seconds.toFixed(1)} s`);
    byId("progress").hidden = true;
  } catch (error) {
    if (own !== running) return; // another run has taken over
    byId("progress").hidden = true;
    if (error.name === "AbortError") status("Cancelled; the server has stopped working on it.");
    else fail(error);
    restore();
  } finally {
    if (own === running) running = null;
    updateRun();
  }
}

/** The left image as it was chosen, to be seen while the server works. */
async function localPicture() {
  try {
    const picture = await createImageBitmap(inputs.files.left);
    if (!inputs.single) return picture;
    return await createImageBitmap(picture, 0, 0, picture.width >> 1, picture.height);
  } catch {
    return null; // a kind that this browser cannot read, or no image at all: the server will say
  }
}

function follow(event, local, views) {
  if (event.event === "waiting") progress(1, `Waiting: place ${event.place} in the queue, about ${event.seconds} s`);
  if (event.event === "started") progress(3, "Started");
  if (event.event === "stage" && STAGES[event.stage]) progress(event.stage === "sgbm" ? 92 : 6, STAGES[event.stage]);
  if (event.event === "iteration") {
    const share = event.iteration / event.iterations;
    progress(12 + share * (views ? 43 : 78), event.iteration ? `Iteration ${event.iteration} of ${event.iterations}` : "Start of the refinement");
    showPreview(event, local);
  }
  if (event.event === "second_view") {
    progress(55 + 35 * event.iteration / event.iterations, `Second view: iteration ${event.iteration} of ${event.iterations}`);
  }
}

function progress(percent, text) {
  const bar = byId("progress");
  bar.hidden = false;
  bar.setAttribute("aria-valuenow", Math.round(percent));
  bar.setAttribute("aria-valuetext", text);
  bar.firstElementChild.style.width = `${percent}%`;
  status(text);
}

function status(text) {
  byId("status").textContent = text;
}

function clearMessages() {
  for (const id of ["error", "notes"]) byId(id).hidden = true;
  status("");
}

function fail(error) {
  const box = byId("error");
  box.textContent = error.message;
  box.hidden = false;
  status("");
  if (error.status === 401) byId("token-dialog").showModal();
  if (!(error instanceof ServerError) && error.name !== "Error") console.error(error);
  if (error instanceof ServerError && error.status === 0) checkServer();
}

function note(sentences) {
  const box = byId("notes");
  box.replaceChildren(...sentences.map((sentence) => Object.assign(document.createElement("p"), { textContent: sentence })));
  if (sentences.some((sentence) => sentence.includes("swapped"))) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: "Swap them and compute again" });
    button.addEventListener("click", () => { inputs.swap(); run(); });
    box.append(button);
  }
  box.hidden = sentences.length === 0;
}

byId("token-ok").addEventListener("click", () => {
  setToken(byId("token-text").value.trim());
  byId("token-dialog").close();
  run();
});
byId("token-cancel").addEventListener("click", () => byId("token-dialog").close());

// --- maps -------------------------------------------------------------------------------------------------------

const viewer = new MapViewer({ canvas: byId("map"), marks: byId("marks"), divider: byId("divider"), readout: byId("readout"), stage: byId("stage") });

function showPreview(event, local) {
  const values = previewValues(event);
  const { low, high } = rangeOf(values);
  const size = local ? { width: local.width, height: local.height } : event;
  byId("empty").hidden = true;
  viewer.show({
    width: size.width, height: size.height, values: false, calibration: null,
    images: local ? { left: local } : {}, maps: { disparity: values }, sizes: { disparity: event },
    leftSide: local ? "left" : "disparity", rightSide: "disparity", colours: () => ({ low, high }),
  });
  byId("stage").dataset.iteration = event.iteration;
}

async function show(done) {
  const has = (name) => done.files.includes(name);
  const array = (name) => (has(`${name}.npy`) ? fetchArray(done.key, `${name}.npy`) : null);
  const [left, right, disparity, confidence, occlusion, sgbm, edges] = await Promise.all([
    fetchPicture(done.key, "left.png"), fetchPicture(done.key, "right.png"),
    array("disparity"), array("confidence"), array("occlusion"), array("sgbm"), array("edges"),
  ]);
  const { calibration } = done;
  const depth = calibration ? depthOf(disparity, calibration) : null;
  result = { ...done, edges, images: { left, right }, maps: { disparity, depth, confidence, occlusion, sgbm } };
  for (const name of Object.keys(result.maps)) if (!result.maps[name]) delete result.maps[name];
  ranges = {};
  choices("map-left", ["left", "right", "sgbm", "disparity", "confidence"]);
  choices("map-right", ["disparity", "depth", "confidence", "sgbm"]);
  toggle("overlay-confidence", Boolean(confidence));
  toggle("overlay-occlusion", Boolean(occlusion));
  for (const id of ["empty", "cloud-empty"]) byId(id).hidden = true;
  for (const id of ["colour-line", "map-left", "map-right", "cloud-colour", "reset-view"]) byId(id).hidden = false;
  delete byId("stage").dataset.iteration;
  restore();
  showTimes(done.stages);
  showFiles();
  await showCloud();
}

function restore() {
  if (result) redraw();
  else if (!viewer.scene) byId("empty").hidden = false;
}

function depthOf(disparity, { focal, baseline, doffs }) {
  return disparity.map((value) => (value + doffs > 0 ? focal * baseline / (value + doffs) : Infinity));
}

function choices(id, names) {
  const select = byId(id);
  const before = select.value;
  const known = names.filter((name) => name in result.maps || name in result.images);
  select.replaceChildren(...known.map((name) => new Option(TITLES[name], name)));
  if (known.includes(before)) select.value = before;
}

function toggle(id, possible) {
  byId(id).disabled = !possible;
  if (!possible) byId(id).checked = false;
}

/** Which map the colour controls are for: the one on the right of the slider. */
const coloured = () => byId("map-right").value;

function colours(name) {
  const kind = name === "sgbm" ? "disparity" : name; // the same colours, so that the two can be compared
  if (!ranges[kind]) {
    const limit = kind === "depth" ? result.calibration.focal * result.calibration.baseline : Infinity;
    const found = rangeOf(result.maps[kind], limit);
    if (kind === "confidence") Object.assign(found, { low: 0, high: 1, least: 0, most: 1 });
    ranges[kind] = { ...found, autoLow: found.low, autoHigh: found.high, reverse: kind === "depth" };
  }
  return ranges[kind];
}

function redraw() {
  viewer.show({
    width: result.width, height: result.height, values: true, calibration: result.calibration,
    images: result.images, maps: result.maps, leftSide: byId("map-left").value, rightSide: coloured(),
    dim: byId("overlay-confidence").checked, mark: byId("overlay-occlusion").checked, colours,
  });
  showColourControls();
}

function showColourControls() {
  const range = colours(coloured());
  const digits = range.high - range.low > 20 ? 1 : 3;
  byId("low").value = Number(range.low.toFixed(digits));
  byId("high").value = Number(range.high.toFixed(digits));
  const place = (value) => Math.round(1000 * (value - range.least) / Math.max(range.most - range.least, 1e-9));
  byId("low-slider").value = place(range.low);
  byId("high-slider").value = place(range.high);
  byId("unit-text").textContent = UNITS[coloured()];
  const bar = byId("bar");
  const context = bar.getContext("2d");
  const image = context.createImageData(256, 1);
  const first = Number(byId("low-slider").value) / 1000 * 255;
  const last = Number(byId("high-slider").value) / 1000 * 255;
  for (let i = 0; i < 256; i++) {
    const share = Math.min(Math.max((i - first) / Math.max(last - first, 1), 0), 1);
    const colour = Math.round(255 * (range.reverse ? 1 - share : share));
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = turbo[3 * colour + c];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function setRange(low, high) {
  const range = colours(coloured());
  if (!(Number.isFinite(low) && Number.isFinite(high) && high > low)) return;
  Object.assign(range, { low, high });
  redraw();
}

for (const id of ["map-left", "map-right", "overlay-confidence", "overlay-occlusion"]) byId(id).addEventListener("change", () => { if (result) redraw(); });
for (const id of ["low", "high"]) byId(id).addEventListener("change", () => setRange(Number(byId("low").value), Number(byId("high").value)));
for (const id of ["low-slider", "high-slider"]) byId(id).addEventListener("input", () => {
  const range = colours(coloured());
  const value = (slider) => range.least + Number(byId(slider).value) / 1000 * (range.most - range.least);
  setRange(value("low-slider"), value("high-slider"));
});
byId("auto").addEventListener("click", () => { const range = colours(coloured()); setRange(range.autoLow, range.autoHigh); });

// --- cloud ------------------------------------------------------------------------------------------------------

let cloud = null;

async function showCloud() {
  const text = byId("cloud-text");
  try {
    cloud ??= new (await import("./cloud.js")).CloudViewer(byId("cloud"));
  } catch (error) {
    console.error(error);
    text.textContent = "The point cloud cannot be shown here, since this browser offers no WebGL; it can still be downloaded.";
    return;
  }
  const { width, height, images, maps, calibration } = result;
  const picture = new OffscreenCanvas(width, height).getContext("2d");
  picture.drawImage(images.left, 0, 0);
  cloud.show({ width, height, disparity: maps.disparity, pixels: picture.getImageData(0, 0, width, height).data, confidence: maps.confidence, occlusion: maps.occlusion, edges: result.edges, calibration });
  const sure = Boolean(maps.confidence);
  byId("min-confidence").disabled = !sure;
  byId("cloud-colour").querySelector("[value=confidence]").disabled = !sure;
  if (!sure && byId("cloud-colour").value === "confidence") byId("cloud-colour").value = "image";
  if (!sure) byId("min-confidence").value = 0;
  cloud.colourBy(byId("cloud-colour").value);
  filterCloud();
}

function filterCloud() {
  const least = Number(byId("min-confidence").value);
  byId("min-confidence-text").value = least.toFixed(2);
  if (!cloud || !result) return;
  const left = cloud.filter(least);
  const unit = result.calibration ? "metres" : "no calibration: shape only";
  byId("cloud-text").textContent = `${left.toLocaleString("en")} of ${cloud.count.toLocaleString("en")} points (${unit})`;
  byId("cloud").dataset.points = left;
  showFiles();
}

byId("min-confidence").addEventListener("input", filterCloud);
byId("cloud-colour").addEventListener("change", (event) => cloud?.colourBy(event.target.value));
byId("reset-view").addEventListener("click", () => cloud?.reset());

// --- times and files --------------------------------------------------------------------------------------------

function showTimes(stages) {
  const most = Math.max(...stages.map((stage) => stage.seconds));
  const row = ({ name, seconds }) => {
    const line = document.createElement("div");
    line.className = "time";
    const bar = document.createElement("i");
    bar.style.width = `${100 * seconds / most}%`;
    const box = document.createElement("span");
    box.append(bar);
    line.append(Object.assign(document.createElement("span"), { textContent: STAGES[name] ?? name }), box, Object.assign(document.createElement("span"), { textContent: seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(2)} s` }));
    return line;
  };
  byId("times").replaceChildren(...stages.map(row));
}

const GROUPS = [["disparity", "Disparity, px"], ["depth", "Depth, m"], ["confidence", "Confidence"], ["occlusion", "Masks"], ["edges", "Masks"], ["cloud", "Point cloud"], ["sgbm", "SGBM, px"], ["left", "Images"], ["right", "Images"], ["calib", "Calibration"], ["all", "Everything"]];
const KINDS = { "disparity.png": "PNG 16-bit", "depth.png": "PNG, mm", "confidence.png": "PNG 16-bit", "sgbm.png": "PNG 16-bit", "occlusion.npy": "Occlusion NPY", "occlusion.png": "PNG", "edges.npy": "Edges NPY", "edges.png": "PNG", "left.png": "Left PNG", "right.png": "Right PNG", "all.zip": "ZIP" };

function showFiles() {
  const rows = new Map();
  for (const [start, title] of GROUPS) {
    for (const name of result.files.filter((file) => file.startsWith(start))) {
      if (!rows.has(title)) rows.set(title, []);
      const link = document.createElement("a");
      const least = Number(byId("min-confidence").value);
      const query = name === "cloud.ply" && least > 0 ? `?min_confidence=${least}` : "";
      link.href = fileAddress(result.key, name) + query;
      link.download = name;
      link.dataset.file = name;
      link.textContent = KINDS[name] ?? (name.includes("colour") ? "picture" : name.split(".").pop().toUpperCase());
      rows.get(title).push(link);
    }
  }
  byId("files").replaceChildren(...[...rows].map(([title, links]) => {
    const row = document.createElement("div");
    row.className = "file-row";
    const box = document.createElement("div");
    box.append(...links);
    row.append(Object.assign(document.createElement("span"), { textContent: title }), box);
    return row;
  }));
}

// --- colour scheme ----------------------------------------------------------------------------------------------

const SCHEMES = { auto: "automatic", light: "light", dark: "dark" };
function showScheme() {
  const now = document.documentElement.dataset.scheme ?? "auto";
  const button = byId("theme");
  button.textContent = { auto: "◐", light: "☀", dark: "☾" }[now];
  button.title = `Colour scheme: ${SCHEMES[now]}`;
  button.setAttribute("aria-label", button.title);
}
byId("theme").addEventListener("click", () => {
  const names = Object.keys(SCHEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.scheme ?? "auto") + 1) % names.length];
  if (next === "auto") delete document.documentElement.dataset.scheme;
  else document.documentElement.dataset.scheme = next;
  if (next === "auto") localStorage.removeItem("scheme");
  else localStorage.setItem("scheme", next);
  showScheme();
});
showScheme();
updateRun();
