// The page of a served map: everything it shows comes from the JSON interface of the same server.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const EVERY = 0.5; // seconds between the frames of a video that are located
const LONGEST = 1800; // seconds of a video: its frames stay in this page
const STRETCHES = 60; // of the route, in the chart of a drive
const PAGE = 60, MOST = 50000; // places shown at a time, and held by this page
const state = { map: null, places: [], token: sessionStorage.getItem("displace-token") || "", first: 0, record: null, fixes: [], turn: 0 };

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (state.token) headers.authorization = `Bearer ${state.token}`;
  const response = await fetch(path, { ...options, headers }).catch(() => { throw new Error("the server cannot be reached; try again in a moment"); });
  if (response.status === 401) $("token").hidden = false;
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({})); // a proxy in front of the server answers as it likes
  if (!response.ok) throw new Error(body.error ? body.error.message : `the server answered ${response.status}`);
  return body;
}

function fail(error, name = "") {
  const message = error.message || String(error);
  $("error").textContent = name ? `${name}: ${message}` : capital(message);
  $("error").hidden = false;
  $("busy").textContent = "";
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key === "text" ? (made.textContent = value) : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes, title) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (title) { const about = document.createElementNS(SVG, "title"); about.textContent = title; made.append(about); }
  return made;
}

const megabytes = (bytes) => (bytes < 1e5 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

// --- the map -------------------------------------------------------------------------------------

async function readMap() {
  state.map = await ask("/v1/map");
  const m = state.map;
  $("about").textContent = `${m.places.toLocaleString()} places from ${Object.keys(m.traversals).length} traversals (${Object.keys(m.traversals).join(", ")})`;
  if (!m.takes_images) {
    $("drop-hint").textContent = capital(m.no_images);
    for (const button of document.querySelectorAll("#drop .actions, #drop .note")) button.hidden = true;
  }
  const facts = {
    "version": m.map, "places": m.places, "traversals": Object.entries(m.traversals).map(([n, c]) => `${n} (${c})`).join(", "),
    "fusion": `${m.fusion}: ${m.reason}`,
    "rows": `${m.rows} rows of ${m.dimensions[0]} numbers, ${m.dtype}${m.storage.rounding ? `; ${m.storage.rounding}` : ""}`,
    "storage": `${megabytes(m.storage.rows)} of rows and ${megabytes(m.storage.projection)} of projection to locate with${m.storage.file ? `; file ${megabytes(m.storage.file)}` : ""}`,
    "model": m.model || "none: descriptors only", "counts as right": m.tolerance,
    "confidence": m.calibration ? `learned from ${m.calibration.n_queries ?? "held-out"} queries${m.calibration_is_stale ? ", before an update" : ""}` : "none",
    "order": m.has_order ? "the places have an order along a route, so drives can be followed" : "the places have no order along a route, so drives cannot be followed",
  };
  $("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", { text: name }), element("dd", { text: value })]));
  const advice = m.advice.length ? m.advice : ["Nothing stands out: the figures of this map suggest no change."];
  $("advice").replaceChildren(...advice.map((text) => element("li", { text })));
  drawCurves(m);
  state.places = [];
  while (state.places.length < Math.min(m.places, MOST)) {
    const { places } = await ask(`/v1/places?start=${state.places.length}&count=5000`);
    if (!places.length) break; // a smaller map has taken over
    state.places.push(...places);
    showPlaces();
  }
}

function chart(svg, points, { x = (v) => v, xs, ys, xTitle, yTitle, under = [], dots = false }) {
  // A line in a frame: xs and ys are [share of the axis, label] of the marks, under is drawn first.
  const at = (h, v) => [50 + 290 * h, 250 - 230 * v], line = (...ends) => `M${ends.map((end) => at(...end)).join("L")}`;
  const text = (content, [px, py], anchor) => { const made = shape("text", { x: px, y: py, "text-anchor": anchor }); made.textContent = content; return made; };
  svg.setAttribute("viewBox", "0 0 360 300");
  svg.replaceChildren(
    shape("path", { class: "axis", d: line([0, 1], [0, 0], [1, 0]) }), ...under.map((ends) => shape("path", { class: "axis dashed", d: line(...ends) })),
    shape("polyline", { class: "curve", points: points.map(([h, v]) => at(x(h), v)).join(" ") }),
    ...(dots ? points.map(([h, v, about]) => { const [cx, cy] = at(x(h), v); return shape("circle", { class: "best", cx, cy, r: 5 }, about); }) : []),
    ...xs.map(([share, label]) => text(label, [at(share, 0)[0], 268], "middle")), ...ys.map(([share, label]) => text(label, [44, at(0, share)[1] + 4], "end")),
    text(xTitle, [195, 290], "middle"), text(yTitle, [50, 12], "start"),
  );
}

function drawCurves(m) {
  const shares = [[0, "0"], [0.5, "0.5"], [1, "1"]], curve = m.calibration ? m.calibration.curve : [];
  $("reliability-figure").hidden = !curve.length;
  chart($("reliability"), curve.map(([p, share, n]) => [p, share, `confidence ${p.toFixed(2)}: right in ${(100 * share).toFixed(0)} % of ${n}`]),
    { xs: shares, ys: shares, xTitle: "confidence", yTitle: "share of right matches", under: [[[0, 0], [1, 1]]], dots: true });
  const held = Object.keys(m.traversals).length < 3 ? "held-out parts of the traversals" : "held-out traversals";
  $("reliability-caption").textContent = `How often matches of each confidence were right, on ${held}. The dashed line is a perfect confidence`;
  $("spectrum-figure").hidden = !m.spectrum;
  if (!m.spectrum) return;
  const most = m.spectrum[m.spectrum.length - 1][0], x = (n) => Math.log(n) / Math.log(Math.max(2, most)), kept = m.dimensions[0];
  const marks = [1, 10, 100, 1000, 10000].filter((n) => n <= most).map((n) => [x(n), String(n)]);
  chart($("spectrum"), m.spectrum, { x, xs: marks, ys: shares, xTitle: "dimensions", yTitle: "share of the eigenvalues' sum", under: [[[x(kept), 0], [x(kept), 1]]] });
  $("spectrum-caption").textContent = `How much of what tells places apart lies in the leading dimensions. The dashed line marks the ${kept} that the map keeps`;
}

function picture(place, traversal, loading = "eager") {
  const image = element("img", { alt: `place ${place} in ${traversal}`, loading });
  load(image, `/v1/places/${encodeURIComponent(place)}/images/${encodeURIComponent(traversal)}`);
  return image;
}

async function load(image, path) {
  // With a token pictures cannot be asked for by their address alone.
  if (!state.token) { image.src = path; return; }
  const response = await fetch(path, { headers: { authorization: `Bearer ${state.token}` } });
  if (response.ok) image.src = URL.createObjectURL(await response.blob());
}

function showPlaces() {
  const some = state.places.slice(state.first, state.first + PAGE);
  $("places").replaceChildren(...some.map((p) => {
    const open = element("button", { type: "button" }, ...(p.images.length ? [picture(p.place, p.images[0], "lazy")] : []), element("span", { text: String(p.place) }));
    open.addEventListener("click", () => { openPlace(p.place); select($("tab-locate")); });
    return element("li", {}, open);
  }));
  $("page-of").textContent = `${state.places.length ? state.first + 1 : 0}–${Math.min(state.first + PAGE, state.places.length)} of ${state.places.length.toLocaleString()}${state.places.length < state.map.places ? ` (of ${state.map.places.toLocaleString()})` : ""}`;
  $("earlier").disabled = state.first === 0;
  $("later").disabled = state.first + PAGE >= state.places.length;
}

// --- the route -----------------------------------------------------------------------------------

function layout() {
  const located = state.places.filter((p) => p.position);
  const flip = state.map.degrees;
  if (located.length >= 2) {
    const xs = located.map((p) => (flip ? p.position[1] * Math.cos((located[0].position[0] * Math.PI) / 180) : p.position[0]));
    const ys = located.map((p) => (flip ? p.position[0] : p.position[1]));
    const least = (values) => values.reduce((a, b) => Math.min(a, b)), [x0, y0] = [least(xs), least(ys)];
    const [width, height] = [-least(xs.map((x) => x0 - x)), -least(ys.map((y) => y0 - y))];
    const scale = Math.min(940 / Math.max(width, 1e-9), 360 / Math.max(height, 1e-9)); // the same both ways: a map
    const left = 500 - (width * scale) / 2, tall = Math.max(40, height * scale);
    const points = new Map(located.map((p, i) => [String(p.place), [left + (xs[i] - x0) * scale, 30 + tall - (ys[i] - y0) * scale]]));
    return { points, height: tall + 60, caption: "The places of the map; north is up" };
  }
  const n = Math.max(state.places.length - 1, 1);
  const points = new Map(state.places.map((p, i) => [String(p.place), [30 + (940 * i) / n, 40]]));
  return { points, height: 80, caption: state.map.has_order ? "The places in the order of the route" : "The places in the order of their names" };
}

function drawRoute(ranked, found) {
  const { points, height, caption } = layout();
  const svg = $("route");
  svg.setAttribute("viewBox", `0 0 1000 ${height}`);
  const unit = 1000 / (svg.clientWidth || 1000); // dots as large on a phone as on a desk
  const road = shape("polyline", { class: "road", points: [...points.values()].map((p) => p.join(",")).join(" ") });
  const dots = ranked.map((place, i) => [place, i]).reverse().filter(([place]) => points.has(String(place)))
    .map(([place, i]) => { const [x, y] = points.get(String(place)); return shape("circle", { class: i || !found ? "runner" : "best", cx: x, cy: y, r: unit * (i || !found ? 5 : 9) }, `${i + 1}. ${place}`); });
  svg.replaceChildren(...(state.map.has_order || points.size < 2 ? [road] : []), ...dots);
  const meaning = found ? `the large dot is the result${ranked.length > 1 ? ", small ones its runners-up" : ""}` : "the dots are the most similar places";
  $("route-caption").textContent = `${caption}; ${meaning}`;
}

// --- a picture -----------------------------------------------------------------------------------

function words(record) {
  const best = record.places[0];
  if (record.in_map === false) return ["no", "Not in this map", ` (confidence ${record.confidence.toFixed(2)}); the most similar place is ${best}`];
  if (record.confidence === undefined || record.confidence === null) return ["", `Most like ${best}`, "; this map has no confidence, so it cannot say whether that is right"];
  const sure = record.confidence >= 0.9 ? "almost surely" : record.confidence >= 0.7 ? "probably" : "perhaps";
  return ["yes", `At ${best}`, `, ${sure} (confidence ${record.confidence.toFixed(2)})`];
}

function show(record, view, about = "Your picture") {
  state.record = record;
  $("query-caption").textContent = about;
  const [kind, strong, rest] = record.linked ? ["", `Place ${record.places[0]}`, ""] : words(record);
  $("verdict").className = kind;
  $("verdict").replaceChildren(element("strong", { text: strong }), rest);
  $("busy").textContent = "";
  $("result").hidden = false;
  if (view) { $("query").querySelector(".stage").replaceChildren(view); $("query").hidden = false; }
  showMatch(record.places[0]);
  drawRoute(record.places, record.in_map !== false);
  $("matches-title").textContent = record.in_map === false ? "Most similar places" : "Best places";
  $("matches").replaceChildren(...record.places.map((place, i) => {
    const button = element("button", { type: "button", text: String(place) });
    button.addEventListener("click", () => showMatch(place));
    const pictures = imagesOf(place).slice(0, 4).map((name) => picture(place, name, "lazy"));
    return element("li", {}, button, record.scores ? ` ${record.measure || "score"} ${record.scores[i].toFixed(3)}` : "", element("div", {}, ...pictures));
  }));
}

function openPlace(place) {
  $("error").hidden = true;
  $("scrub-row").hidden = true;
  $("query").hidden = true;
  show({ places: [place], linked: true });
  $("compare-row").hidden = true;
}

function imagesOf(place) {
  const known = state.places.find((p) => String(p.place) === String(place));
  return known ? known.images : [];
}

function showMatch(place) {
  const images = imagesOf(place);
  $("match").hidden = $("compare-row").hidden = !images.length;
  if (!images.length) return;
  $("traversal").replaceChildren(...images.map((name) => element("option", { value: name, text: name })));
  const put = () => {
    $("match").querySelector(".stage").replaceChildren(picture(place, $("traversal").value));
    compare();
  };
  $("traversal").onchange = put;
  put();
}

function compare() {
  const stage = $("query").querySelector(".stage");
  const old = stage.querySelector(".over");
  const source = $("match").querySelector("img");
  if (old) old.remove();
  const share = Number($("compare").value);
  if (!source || !share) return;
  const over = source.cloneNode();
  over.className = "over";
  over.alt = "";
  over.style.clipPath = `inset(0 ${100 - share}% 0 0)`;
  stage.append(over);
}

async function locateAll(files) {
  // What is chosen while another file is in work takes its place: its frames are not sent any further.
  const turn = ++state.turn;
  $("error").hidden = true;
  for (const file of [...files]) {
    $("result").hidden = true;
    $("busy").textContent = `Looking at ${file.name} …`;
    $("compare").value = 0;
    try { await locate(file, turn); } catch (error) { if (turn === state.turn) fail(error, file.name); }
    if (turn !== state.turn) return;
  }
}

async function locate(file, turn) {
  if (file.type.startsWith("video/")) return follow(file, turn);
  const found = await ask("/v1/locate?k=5", { method: "POST", body: file, headers: { "content-type": file.type || "image/jpeg" } });
  if (turn !== state.turn) return;
  const view = element("img", { alt: "your picture" });
  view.src = URL.createObjectURL(file);
  const record = found.results[0];
  $("scrub-row").hidden = true;
  show(record, view);
  remember(file.name, words(record)[1], view.src, () => { $("scrub-row").hidden = true; show(record, view); });
}

function remember(name, what, source, again) {
  const image = element("img", { alt: "" });
  image.src = source;
  const button = element("button", { type: "button", text: `${name}: ${what}` });
  button.addEventListener("click", () => { $("error").hidden = true; again(); });
  $("history").prepend(element("li", {}, image, button));
  $("history-section").hidden = false;
}

// --- a video -------------------------------------------------------------------------------------

async function follow(file, turn) {
  if (!state.map.has_order) throw new Error("The places of this map have no order along a route, so it cannot follow a video. Drop single pictures instead.");
  const video = element("video", { muted: "", playsinline: "" });
  video.src = URL.createObjectURL(file);
  await new Promise((resolve, reject) => { video.onloadeddata = resolve; video.onerror = () => reject(new Error("this browser cannot play that video")); });
  const seek = (time) => new Promise((resolve) => { video.onseeked = resolve; video.currentTime = time; });
  if (!Number.isFinite(video.duration)) await seek(1e9); // as recorded by a browser: known once its end was met
  if (!(video.duration <= LONGEST)) throw new Error(`This video lasts ${(video.duration / 60).toFixed(0)} minutes; this page follows at most ${LONGEST / 60}. Cut it, or use displace locate on the command line.`);
  const canvas = element("canvas");
  const scale = Math.min(1, 1280 / Math.max(video.videoWidth, video.videoHeight));
  canvas.width = video.videoWidth * scale; canvas.height = video.videoHeight * scale;
  const { drive } = await ask("/v1/drives", { method: "POST" });
  const fixes = [];
  try {
    for (let time = 0; time < video.duration && turn === state.turn; time += EVERY) {
      await seek(Math.min(time, video.duration - 0.01));
      canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
      const frame = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
      const fix = await ask(`/v1/drives/${drive}/frames?belief=${STRETCHES}`, { method: "POST", body: frame, headers: { "content-type": "image/jpeg" } });
      fixes.push({ ...fix, time, source: URL.createObjectURL(frame) });
      if (turn === state.turn) $("busy").textContent = `Following ${file.name}: ${time.toFixed(1)} of ${video.duration.toFixed(1)} s …`;
    }
  } finally { await ask(`/v1/drives/${drive}`, { method: "DELETE" }).catch(() => {}); }
  if (turn !== state.turn) return;
  const again = () => {
    state.fixes = fixes;
    $("scrub").max = fixes.length - 1; // first: it bounds the value
    $("scrub").value = fixes.length - 1;
    $("scrub-row").hidden = false;
    drawBelief();
    scrubbed();
  };
  again();
  remember(file.name, `${fixes.length} frames followed`, fixes[fixes.length - 1].source, again);
}

function drawBelief() {
  const svg = $("belief"), n = state.fixes.length, cells = [];
  svg.setAttribute("viewBox", "0 0 1000 240");
  svg.setAttribute("preserveAspectRatio", "none");
  state.fixes.forEach((fix, i) => {
    const tall = 236 / fix.belief.length; // of a short route there are fewer
    fix.belief.forEach((value, row) => { if (value > 0.01) cells.push(shape("rect", { class: "cell", x: (1000 * i) / n, y: 238 - tall * (row + 1), width: Math.max(2, 1000 / n - 1), height: Math.max(4, tall), opacity: Math.min(1, 0.2 + value) })); });
  });
  svg.replaceChildren(...cells);
}

function scrubbed() {
  const fix = state.fixes[Number($("scrub").value)];
  if (!fix) return;
  $("scrub-value").textContent = `${Number($("scrub").value) + 1} of ${state.fixes.length}, ${fix.time.toFixed(1)} s`;
  const view = element("img", { alt: `frame at ${fix.time.toFixed(1)} seconds` });
  view.src = fix.source;
  const likely = fix.places.map((place, i) => [place, fix.scores[i]]).filter(([, score], i) => !i || score >= 0.01).slice(0, 5);
  const record = { places: likely.map(([place]) => place), scores: likely.map(([, score]) => score), measure: "belief" };
  show({ ...record, confidence: fix.probability, in_map: fix.off_map < 0.5 }, view, `Frame at ${fix.time.toFixed(1)} s`);
  const now = (1000 * (Number($("scrub").value) + 0.5)) / state.fixes.length;
  $("belief").querySelectorAll(".now").forEach((old) => old.remove());
  $("belief").append(shape("path", { class: "now", d: `M${now},0V240` }));
}

// --- what a person does --------------------------------------------------------------------------

function select(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const own = other === tab;
    other.setAttribute("aria-selected", own);
    other.tabIndex = own ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !own;
  }
  tab.focus();
}

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", (event) => {
    const tabs = [...document.querySelectorAll("[role=tab]")], step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) select(tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]);
  });
}
for (const input of [$("pick"), $("camera")]) input.addEventListener("change", () => {
  if (!input.files.length) return;
  locateAll(input.files);
  input.value = ""; // the same file may be chosen again
});
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault()); // beside the box a file would take the page's place
$("drop").addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
$("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  if (event.dataTransfer.files.length) locateAll(event.dataTransfer.files);
});
$("compare").addEventListener("input", compare);
$("scrub").addEventListener("input", scrubbed);
$("earlier").addEventListener("click", () => { state.first = Math.max(0, state.first - PAGE); showPlaces(); });
$("later").addEventListener("click", () => { state.first += PAGE; showPlaces(); });
$("link").addEventListener("click", async () => {
  const link = `${location.origin}/#place=${encodeURIComponent(state.record.places[0])}`;
  try { await navigator.clipboard.writeText(link); $("copied").textContent = "copied"; } catch { $("copied").textContent = link; }
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token-value").value;
  sessionStorage.setItem("displace-token", state.token);
  $("token").hidden = true;
  $("error").hidden = true;
  start();
});

function start() {
  readMap().then(() => {
    const linked = new URLSearchParams(location.hash.slice(1)).get("place");
    if (linked) openPlace(linked);
  }).catch(fail);
}
start();
