// The report: charts.js stands before it in the same script, a module.
const record = JSON.parse(document.getElementById("record").textContent);
const { sequence, measure, unit } = record;
const total = sequence.length ? sequence.at(-1).cumulative_cost : 0;
const curves = record.curves.map(curve => within(curve, total));
const training = curves.find(c => c.kind === "training");
const main = curves.find(c => c.kind === "cross-validated") || training;
const limit = record.certificate ? record.certificate.curve : null;
const { costs } = training;
const $ = id => document.getElementById(id);

const { style } = measure;
const percent = x => (x === null ? "–" : minus((100 * x).toPrecision(3)) + " %");

// -- what a budget buys ---

const groupsUntil = stage => sequence.slice(0, stage).filter(step => step.columns).length; // pairs of columns are not counted
const stageAt = budget => lastWithin(costs, budget);
const pointAt = budget => lastWithin(main.costs, budget);
const pointOf = stage => record.points[stage];
const shareAdded = k => difference(k ? sequence[k - 1].explained : 0, sequence[k].explained);

// -- drawing ---

// Where most of the improvement is cheap, the axis of budgets is stretched there.
const bent = Number($("live").dataset.start) < total / 15 && total > 0;
let onPaper = 0;
const widthOf = id => onPaper || $(id).clientWidth;
const canvasOf = (id, height) => canvas($(id), widthOf(id), height);

// -- the curve ---

function describeStage(k) {
  const lines = [k ? `Stage ${k}: ${sequence[k - 1].group}` : "No groups", `cost ${amount(costs[k])}`, `${measure.label} ${withError(main.values[pointOf(k)], errorAt(main, pointOf(k)), style)}`];
  if (main !== training) lines.push(`training ${number(training.values[k], style)}`);
  return lines;
}
let chart = null;
function drawCurve() {
  const { svg, width, height } = canvasOf("curve", widthOf("curve") < 480 ? 280 : 380);
  const box = { left: measure.style === "percent" ? 54 : 52, right: width - 10, top: 30, bottom: height - 42 };
  const drawn = [...curves, ...(limit ? [limit] : [])];
  const x = costScale(total, box.left, box.right, width < 480 ? 4 : 7, bent);
  // The value without groups may lie so far from the others that these would share a narrow strip: then it is drawn at the edge.
  const later = drawn.flatMap(c => bounds({ values: c.values.slice(1), errors: c.errors?.slice(1) })), every = drawn.flatMap(bounds);
  const reach = values => Math.max(...values) - Math.min(...values), far = later.length > 0 && reach(every) > 2.5 * reach(later) && reach(later) > 0;
  const scale = scaleOf(far ? later : every, box.bottom, box.top, 6);
  const y = { ticks: scale.ticks, place: v => Math.min(box.bottom, Math.max(box.top, scale.place(v))) };
  const area = draw(svg, "rect", { class: "spent-area", x: box.left, y: box.top, height: box.bottom - box.top, width: 0 });
  const above = limit ? stepRuns(limit, k => limit.values[k], x, y)[0] : [];
  if (limit) draw(svg, "path", { class: "beyond", d: path([...above, [above.at(-1)[0], box.top], [above[0][0], box.top]]) + "Z" });
  curveAxes(svg, box, x, y, measure, bent ? `${unit} (square-root scale)` : unit);
  if (far) draw(svg, "text", { x: box.right - 4, y: y.place(main.values[0]) + (measure.greater_is_better ? -8 : 16), "text-anchor": "end" }, `${number(main.values[0], style)} with no groups${width < 480 ? "" : ", beyond this axis"}`);
  drawBand(svg, main, x, y, total);
  if (limit) draw(svg, "path", { class: "line line-bound", d: path(above) });
  for (const curve of [...curves].reverse()) drawSteps(svg, curve, x, y, `line-${curve === main ? "main" : curve.kind}`, total);
  const now = draw(svg, "line", { class: "now", y1: box.top, y2: box.bottom });
  const known = costs.map((_, k) => k).filter(k => main.values[pointOf(k)] !== null);
  const dots = known.map(k => draw(svg, "circle", { class: costs.length > 60 ? "dot small" : "dot", r: costs.length > 60 ? 1.75 : 4, cx: x.place(costs[k]), cy: y.place(main.values[pointOf(k)]) }));
  const mark = draw(svg, "circle", { class: "mark", r: 7 });
  walkable($("curve"), dots, i => describeStage(known[i]), i => setBudget(costs[known[i]]), width);
  chart = { svg, x, y, box, area, now, mark, width };
}
function moveMark() {
  const { x, y, box, area, now, mark } = chart, value = main.values[pointAt(budget)];
  area.setAttribute("width", x.place(budget) - box.left);
  now.setAttribute("x1", x.place(budget));
  now.setAttribute("x2", x.place(budget));
  mark.setAttribute("cx", x.place(budget));
  mark.setAttribute("cy", value === null ? box.bottom : y.place(value));
}
function budgetUnder(event) {
  const frame = chart.svg.getBoundingClientRect();
  return chart.x.cost((event.clientX - frame.left) * chart.width / frame.width);
}

// -- cost and gain ---

let points = [];
function drawScatter() {
  if (!$("scatter").clientWidth) return; // all costs are equal
  const { svg, width, height } = canvasOf("scatter", widthOf("scatter") < 480 ? 340 : 400);
  const box = { left: 58, right: width - 14, top: 30, bottom: height - 42 };
  const added = sequence.map((_, k) => shareAdded(k));
  const x = scaleOf(sequence.map(s => s.cost), box.left, box.right, width < 480 ? 4 : 7, true);
  const y = scaleOf(added.map(v => (v === null ? 0 : Math.max(v, 0))), box.bottom, box.top, 5, true);
  axes(svg, box, x, y, amount, t => amount(100 * t) + " %", `cost in ${unit}`, "additionally explained, training");
  const spot = k => [x.place(sequence[k].cost), y.place(Math.max(added[k] || 0, 0))];
  points = sequence.map((_, k) => draw(svg, "circle", { class: "dot", r: 5.5, cx: spot(k)[0], cy: spot(k)[1] }));
  // names where they fit, the best value for money first
  const taken = points.map((_, k) => [spot(k)[0] - 6, spot(k)[1] - 6, spot(k)[0] + 6, spot(k)[1] + 6]);
  const free = (a, self) => a[0] >= box.left && a[2] <= width && a[1] >= box.top - 12 && a[3] <= box.bottom
    && taken.every((b, k) => k === self || a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1]);
  sequence.forEach((stage, k) => {
    const name = stage.group.length > 22 ? stage.group.slice(0, 21) + "…" : stage.group, [cx, cy] = spot(k);
    const label = draw(svg, "text", { class: "name" }, name), w = label.getComputedTextLength();
    const options = [[cx + 9, cy + 4], [cx - 9 - w, cy + 4], [cx - w / 2, cy - 11], [cx - w / 2, cy + 20]];
    const found = options.find(([a, b]) => free([a, b - 11, a + w, b + 3], k));
    if (!found) { label.remove(); return; }
    label.setAttribute("x", found[0]);
    label.setAttribute("y", found[1]);
    taken.push([found[0], found[1] - 11, found[0] + w, found[1] + 3]);
  });
  const describe = k => [`${k + 1}. ${sequence[k].group}`, `cost ${amount(sequence[k].cost)}`, `explains another ${percent(added[k])}`];
  walkable($("scatter"), points, describe, k => setBudget(costs[k + 1]), width);
  markPoints();
}
const markPoints = () => points.forEach((dot, k) => dot.classList.toggle("bought", k < stageAt(budget)));

// -- methods ---

function drawMethods() {
  if (!record.comparison) return;
  const { methods } = record.comparison, narrow = widthOf("methods") < 560, row = narrow ? 42 : 30;
  const { svg, width, height } = canvasOf("methods", methods.length * row + 60);
  const box = { left: narrow ? 12 : 170, right: width - 24, top: 24, bottom: height - 32 };
  const bounds = methods.flatMap(m => m.timeliness === null ? [] : [m.timeliness - (m.timeliness_error || 0), m.timeliness + (m.timeliness_error || 0)]);
  const x = scaleOf(bounds, box.left + 8, box.right - 8, narrow ? 3 : 5, false);
  draw(svg, "text", { x: 0, y: 12 }, `timeliness: mean ${measure.label} over all budgets`);
  for (const tick of x.ticks) {
    draw(svg, "line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: box.top, y2: box.bottom });
    draw(svg, "text", { x: x.place(tick), y: box.bottom + 18, "text-anchor": "middle" }, number(tick, style));
  }
  methods.forEach((method, k) => {
    const group = draw(svg, "g", k ? {} : { class: "own" }), y = box.top + (k + (narrow ? 0.72 : 0.5)) * row;
    draw(group, "text", { class: "name", x: 0, y: narrow ? y - 10 : y + 4 }, method.name);
    if (method.timeliness === null) return;
    const error = method.timeliness_error || 0;
    draw(group, "line", { class: "whisker", x1: x.place(method.timeliness - error), x2: x.place(method.timeliness + error), y1: y, y2: y });
    draw(group, "circle", { class: "dot", r: 5.5, cx: x.place(method.timeliness), cy: y });
  });
}

// -- a threshold, for two classes ---

const chances = record.probabilities || null, [otherClass, positiveClass] = record.task.classes;
const sum = counts => counts.reduce((a, b) => a + b, 0);
const calledAt = ({ first, second }, k) => [first.slice(k), second.slice(k), first.slice(0, k), second.slice(0, k)].map(sum);
function showThreshold() {
  if (!chances) return;
  const counts = chances.stages.findLast(s => s.stage <= stageAt(budget)), k = Number($("threshold").value) + 1, at = `${amount(100 * chances.thresholds[k - 1])} %`;
  const [wrong, right, spared, missed] = calledAt(counts, k);
  $("threshold-what").textContent = `With ${groupsUntil(counts.stage)} of ${groupsUntil()} groups (the budget chosen above), held-out rows with a probability of at least ${at} are called ${positiveClass}:`;
  $("threshold").setAttribute("aria-valuetext", at);
  const row = (name, part, others, of, what) => {
    const found = document.createElement("tr"), cells = [name, part + others > 0 ? number(part / (part + others), "percent") : "–", `${amount(part)} of ${amount(part + others)} rows ${of} are ${what}`];
    found.append(...cells.map((text, i) => Object.assign(document.createElement("td"), { textContent: text, className: i === 1 ? "num" : "words" })));
    return found;
  };
  $("called").replaceChildren(
    row("Sensitivity", right, missed, `of class ${positiveClass}`, `called ${positiveClass}`),
    row("Specificity", spared, wrong, `of class ${otherClass}`, `called ${otherClass}`),
    row("Positive predictive value", right, wrong, `called ${positiveClass}`, positiveClass),
    row("Negative predictive value", spared, missed, `called ${otherClass}`, otherClass),
  );
  showThresholds(counts);
  drawReliability(counts);
}
// The table follows the chosen budget; without a script it is that of the best stage.
const thresholdTable = document.querySelector(".thresholds .scroll table");
function showThresholds(counts) {
  thresholdTable.querySelector("th").textContent = `threshold, with ${groupsUntil(counts.stage)} of ${groupsUntil()} groups`;
  for (const row of thresholdTable.tBodies[0].rows) {
    const k = chances.thresholds.indexOf(parseFloat(row.cells[0].textContent) / 100) + 1;
    const [wrong, right, spared, missed] = calledAt(counts, k);
    const parts = [[wrong + right, spared + missed], [right, missed], [spared, wrong], [right, wrong], [spared, missed]];
    parts.forEach(([part, others], i) => { row.cells[i + 1].textContent = number(part + others > 0 ? part / (part + others) : null, "percent"); });
  }
}
// Neighbouring bins are joined until each has a tenth of the rows.
function binned({ first, second }) {
  const edges = [0, ...chances.thresholds, 1], total = sum(first) + sum(second), found = [];
  let rows = 0, said = 0, came = 0, left = total;
  first.forEach((_, k) => {
    const here = first[k] + second[k];
    [rows, said, came, left] = [rows + here, said + here * (edges[k] + edges[k + 1]) / 2, came + second[k], left - here];
    if (rows >= total / 10 && left >= total / 20 || rows > 0 && left <= total * SLACK) { found.push({ rows, said: said / rows, came: came / rows }); rows = said = came = 0; }
  });
  return found;
}
function drawReliability(counts) {
  const { svg, width, height } = canvasOf("reliability", 320), bins = binned(counts), box = { left: 54, right: width - 14, top: 30, bottom: height - 42 };
  const half = b => Math.sqrt(b.came * (1 - b.came) / b.rows + 0.25 / b.rows ** 2);  // Wilson's interval: it has a width also at 0 and 1
  const ends = b => [-1, 1].map(sign => (b.came + 0.5 / b.rows + sign * half(b)) / (1 + 1 / b.rows));
  const reach = [0, ...bins.flatMap(b => [b.said, ends(b)[1]])];
  const x = scaleOf(reach, box.left, box.right, 5), y = scaleOf(reach, box.bottom, box.top, 5), end = x.ticks.at(-1), text = t => `${amount(100 * t)} %`;
  axes(svg, box, x, y, text, text, "predicted probability", `share that is ${positiveClass}`);
  draw(svg, "line", { class: "diagonal", x1: x.place(0), y1: y.place(0), x2: x.place(end), y2: y.place(end) });
  for (const b of bins) {
    draw(svg, "line", { class: "whisker", x1: x.place(b.said), x2: x.place(b.said), y1: y.place(ends(b)[0]), y2: y.place(ends(b)[1]) });
    draw(svg, "circle", { class: "dot", r: 5, cx: x.place(b.said), cy: y.place(b.came) });
  }
}

// -- the chosen budget ---

let budget = 0;
function chip(name, kind) {
  const found = document.createElement("li");
  found.append(...named(name));
  found.className = kind;
  return found;
}
// Where most targets are around their predictions.
function showInterval(stage) {
  const found = record.intervals?.stages.findLast(s => s.stage <= stage);
  $("interval").hidden = !found;
  if (!found) return;
  $("interval-label").textContent = `${amount(100 * record.intervals.coverage)} % of held-out targets`;
  $("interval-ends").textContent = `prediction ${change(found.lower, "general")} to ${change(found.upper, "general")}`;
  $("interval-measured").textContent = `measured coverage ${withError(found.covered, found.error, "percent")}`;
}
const slider = $("budget"), field = $("budget-number");
function setBudget(wanted, by) {
  budget = Math.min(total, Math.max(0, wanted));
  if (by !== slider) slider.value = String(budget);
  if (by !== field) field.value = String(Number(budget.toPrecision(12)));
  const stage = stageAt(budget), spent = costs[stage], rest = budget - spent, next = sequence[stage], point = pointAt(budget);
  $("quality").textContent = number(main.values[point], style);
  $("quality-error").textContent = errorAt(main, point) === null ? "" : `± ${number(errorAt(main, point), style)}`;
  $("quality-training").textContent = main === training ? "" : `${number(training.values[stage], style)} on ${record.other_data ? "these rows" : "the training data"}`;
  $("spent").textContent = `${amount(spent)} of ${amount(total)} ${unit}`;
  $("left").textContent = rest > total * SLACK ? `${amount(rest)} left, too little for the next group` : "";
  $("count").textContent = `${groupsUntil(stage)} of ${groupsUntil()}`;
  const bought = sequence.slice(0, stage).map(s => s.group);
  $("groups").replaceChildren(...(stage ? bought : ["none"]).map(name => chip(name, stage ? "" : "none")));
  showInterval(stage);
  $("next-group").replaceChildren(...(next ? named(next.group) : ["none: all groups are computed"]));
  // what comes free with the next group, such as pairs of columns, belongs to its effect, as in the table
  const effect = next ? change(difference(main.values[pointOf(stage)], main.values[pointOf(stageAt(costs[stage + 1]))]), style) : "";
  $("next-what").textContent = next
    ? `costs ${amount(next.cost)}, affordable from a budget of ${amount(costs[stage + 1])}; changes ${measure.label} by ${effect}${main === training ? " (training)" : ""}` : "";
  const text = `${amount(budget)} ${unit}: ${groupsUntil(stage)} of ${groupsUntil()} groups, ${measure.label} ${number(main.values[point], style)}`;
  slider.setAttribute("aria-valuetext", text);
  $("status").textContent = text;
  $("previous").disabled = budget <= 0;
  $("next").disabled = budget >= total;
  for (const row of document.querySelectorAll(".order tr[data-row]")) row.classList.toggle("bought", Number(row.dataset.row) <= stage);
  moveMark();
  markPoints();
  showThreshold();
}
const nextCost = () => costs.find(c => c > budget * (1 + SLACK)) ?? total;
const previousCost = () => costs.findLast(c => c < budget * (1 - SLACK)) ?? 0;
slider.addEventListener("input", () => setBudget(Number(slider.value), slider));
slider.addEventListener("keydown", event => {
  const to = {
    ArrowRight: nextCost, ArrowUp: nextCost, ArrowLeft: previousCost, ArrowDown: previousCost, Home: () => 0, End: () => total,
    PageUp: () => budget + total / 10, PageDown: () => budget - total / 10,
  }[event.key];
  if (!to || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  setBudget(to());
});
field.addEventListener("input", () => { if (field.value !== "" && Number.isFinite(Number(field.value))) setBudget(Number(field.value), field); });
field.addEventListener("change", () => setBudget(budget));
$("previous").addEventListener("click", () => setBudget(previousCost()));
$("next").addEventListener("click", () => setBudget(nextCost()));

// -- start ---

document.documentElement.classList.add("js");
$("live").hidden = false;
$("quality-label").textContent = main === training ? `${measure.label} on the training data` : `Held-out ${measure.label}: mean of ${measure.folds} folds ± standard error`;
legend($("curve-legend"), [
  ["main", main.label],
  ...(main.errors.length ? [["band", "± one standard error"]] : []),
  ...(main === training ? [] : [["training", training.label]]),
  ...(limit ? [["bound", limit.label]] : []),
]);
if (chances) {
  $("threshold").max = String(chances.thresholds.length - 1);
  $("threshold").value = String(chances.thresholds.indexOf(0.5));
  $("threshold").addEventListener("input", showThreshold);
  legend($("reliability-legend"), [["training", "perfect calibration"], ["main", "held-out rows, one tenth per point, ± one standard error"]]);
}
const plot = $("curve");
plot.addEventListener("pointermove", event => {
  if (event.target.classList.contains("dot")) return;
  const stage = stageAt(budgetUnder(event)), value = main.values[pointOf(stage)];
  if (value !== null) showTip(plot, chart.x.place(costs[stage]), chart.y.place(value), describeStage(stage), chart.width);
});
plot.addEventListener("pointerleave", () => hideTip(plot));
plot.addEventListener("click", event => setBudget(budgetUnder(event)));
function drawAll() {
  drawCurve();
  drawScatter();
  drawMethods();
  showThreshold();
  moveMark();
}
drawAll();
setBudget(Number($("live").dataset.start));
let width = plot.clientWidth;
new ResizeObserver(() => {
  if (plot.clientWidth === width || !plot.clientWidth) return;
  width = plot.clientWidth;
  drawAll();
}).observe(plot);
// Paper has a width of its own, so that text there is neither tiny nor huge.
addEventListener("beforeprint", () => { onPaper = 760; drawAll(); });
addEventListener("afterprint", () => { onPaper = 0; drawAll(); });
