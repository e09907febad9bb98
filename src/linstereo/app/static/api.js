// The server as the page sees it: health, predictions with their events, and arrays of results.

/** A refusal or a failure, in a sentence for the reader. */
export class ServerError extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const GONE = "The server cannot be reached. It may have been stopped: start it again with “linstereo serve”, then try once more.";
const CUT = "The connection to the server was lost before the result was there. If it was stopped, start it again and try once more.";

function token() {
  return sessionStorage.getItem("token");
}

/** Keep the token for as long as this tab lives. */
export function setToken(text) {
  sessionStorage.setItem("token", text);
}

async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(GONE);
  }
  if (response.ok) return response;
  let sentence = `The server answered ${response.status}.`;
  try {
    sentence = (await response.json()).error ?? sentence;
  } catch { /* no JSON: an answer that does not come from linstereo */ }
  const wait = response.headers.get("Retry-After");
  if (wait) sentence += ` (in about ${wait} s)`;
  throw new ServerError(sentence, response.status);
}

export async function health() {
  return (await ask("/v1/health")).json();
}

/** Send a form; calls `onEvent` with each event and returns the last one. */
export async function predict(form, { signal, onEvent }) {
  const response = await ask("/v1/predict", { method: "POST", body: form, signal, headers: { Accept: "text/event-stream" } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ServerError(CUT);
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        if (!line.startsWith("data: ")) continue;
        const event = JSON.parse(line.slice(6));
        if (event.event === "error") throw new ServerError(event.error, event.status);
        if (event.event === "done") return event;
        onEvent(event);
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ServerError) throw error;
    throw new ServerError(CUT);
  }
}

/** Where a file of a result is. */
export function fileAddress(key, name) {
  return `/v1/results/${key}/${name}`;
}

/** A file of a result, whole; asked for again if the connection breaks on the way. */
async function fetchFile(key, name) {
  for (let trial = 1; ; trial++) {
    try {
      return await (await ask(fileAddress(key, name))).blob();
    } catch (error) {
      if (error instanceof ServerError && error.status) throw error;
      if (trial === 3) throw new ServerError(CUT);
    }
  }
}

/** An array [height, width] of a result. */
export async function fetchArray(key, name) {
  return parseNpy(await (await fetchFile(key, name)).arrayBuffer());
}

/** A picture of a result. */
export async function fetchPicture(key, name) {
  return createImageBitmap(await fetchFile(key, name));
}

/** NumPy's format, version 1: magic, length, a Python dictionary, then the values. */
export function parseNpy(buffer) {
  const start = 10 + new DataView(buffer).getUint16(8, true);
  const header = new TextDecoder("latin1").decode(new Uint8Array(buffer, 10, start - 10));
  const kind = /'descr': '([^']+)'/.exec(header)[1];
  const types = { "<f4": Float32Array, "|u1": Uint8Array };
  if (!(kind in types)) throw new ServerError(`An array of ${kind} cannot be shown.`);
  return new types[kind](buffer, start);
}

/** The values of a preview, px. */
export function previewValues(event) {
  const bytes = Uint8Array.from(atob(event.values), (letter) => letter.charCodeAt(0));
  const levels = new Uint16Array(bytes.buffer);
  return Float32Array.from(levels, (value) => value / event.scale);
}
