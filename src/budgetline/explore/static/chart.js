// Drawing with SVG: scales, axes, steps, tips and points that can be walked with the arrow keys.

import { amount, minus, number, withError } from "./format.js";

const SPACE = "http://www.w3.org/2000/svg", SLACK = 1e-12;

export function draw(parent, name, attributes, text) {
  const node = document.createElementNS(SPACE, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
export function canvas(plot, height) {
  const svg = plot.querySelector("svg"), width = Math.max(260, Math.round(widthOf(plot)));
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { svg, width, height };
}
// Draw again when the width changes.
export function onResize(plot, drawAgain) {
  new ResizeObserver(() => {
    const width = plot.clientWidth;
    if (width === widths.get(plot) || !width) return;
    widths.set(plot, width);
    drawAgain();
  }).observe(plot);
}
// Widths are kept: to ask for one means to lay out the page at once.
const widths = new WeakMap();
export function widthOf(plot) {
  if (!widths.get(plot)) widths.set(plot, plot.clientWidth);
  return widths.get(plot);
}

function niceStep(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(m => m * power >= raw * (1 - SLACK));
}
function niceTicks(low, high, step) {
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
export function valueScale(values, from, to, wanted) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!values.length) [low, high] = [0, 1];
  if (high - low < 1e-9 * Math.max(1, Math.abs(high))) [low, high] = [low - 0.5, high + 0.5];
  const step = niceStep(low, high, wanted), start = Math.floor(low / step + 1e-9) * step, stop = Math.ceil(high / step - 1e-9) * step;
  return { place: v => from + (to - from) * (v - start) / (stop - start), ticks: niceTicks(start, stop, step) };
}
export function costScale(total, from, to, wanted) {
  return { place: c => from + (to - from) * (total ? c / total : 0), ticks: total ? niceTicks(0, total, niceStep(0, total, wanted)) : [0] };
}
export function axes(svg, box, x, y, measure, unit) {
  const yText = measure.style === "percent" ? t => `${minus(String(Number((100 * t).toPrecision(6))))} %` : t => minus(String(t));
  for (const tick of y.ticks) {
    draw(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y.place(tick), y2: y.place(tick) });
    draw(svg, "text", { x: box.left - 8, y: y.place(tick) + 4, "text-anchor": "end" }, yText(tick));
  }
  draw(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  for (const tick of x.ticks) {
    draw(svg, "line", { class: "axis", x1: x.place(tick), x2: x.place(tick), y1: box.bottom, y2: box.bottom + 4 });
    draw(svg, "text", { x: x.place(tick), y: box.bottom + 18, "text-anchor": "middle" }, amount(tick));
  }
  draw(svg, "text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, `budget in ${unit}`);
  draw(svg, "text", { x: 0, y: 12 }, measure.label + (measure.greater_is_better ? "" : " (lower is better)"));
}

// -- step functions of the cost -----------------------------------------------------------------------------------

export function lastWithin(costs, budget) {
  let k = 0;
  while (k + 1 < costs.length && costs[k + 1] <= budget * (1 + SLACK)) k++;
  return k;
}
export const errorAt = (curve, k) => (curve.errors?.length ? curve.errors[k] : null);
export const bounds = curve => curve.values.flatMap((v, k) => v === null ? [] : [v - (errorAt(curve, k) || 0), v + (errorAt(curve, k) || 0)]);
// Runs of points whose values are known, as steps from each cost to the next; the last one goes on to the end.
export function stepRuns(curve, value, x, y, total) {
  const runs = [];
  let run = null;
  curve.costs.forEach((cost, k) => {
    const v = value(k), until = k + 1 < curve.costs.length ? curve.costs[k + 1] : Math.max(cost, total);
    if (v === null || v === undefined) { run = null; return; }
    if (!run) runs.push(run = []);
    run.push([x.place(cost), y.place(v)], [x.place(until), y.place(v)]);
  });
  return runs;
}
export const path = points => points.map((p, k) => `${k ? "L" : "M"}${p[0].toFixed(2)} ${p[1].toFixed(2)}`).join("");
export function drawSteps(svg, curve, x, y, total, kind) {
  for (const run of stepRuns(curve, k => curve.values[k], x, y, total)) draw(svg, "path", { class: `line ${kind}`, d: path(run) });
}
export function drawBand(svg, curve, x, y, total) {
  if (!curve.errors?.length) return;
  const edge = sign => k => (curve.values[k] === null || curve.errors[k] === null ? null : curve.values[k] + sign * curve.errors[k]);
  const low = stepRuns(curve, edge(-1), x, y, total);
  stepRuns(curve, edge(1), x, y, total).forEach((run, k) => draw(svg, "path", { class: "band", d: `${path([...run, ...low[k].reverse()])}Z` }));
}

// -- tips and points ----------------------------------------------------------------------------------------------

export function showTip(plot, x, y, lines, width) {
  const tip = plot.querySelector(".tip"), bold = document.createElement("b");
  bold.textContent = lines[0];
  tip.replaceChildren(bold, ...lines.slice(1).flatMap((line, k) => (k ? [document.createElement("br"), line] : [line])));
  tip.hidden = false;
  tip.style.left = `${Math.max(0, Math.min(x - tip.offsetWidth / 2, width - tip.offsetWidth))}px`;
  tip.style.top = `${y - tip.offsetHeight - 14 < -40 ? y + 16 : y - tip.offsetHeight - 14}px`;
}
export const hideTip = plot => { plot.querySelector(".tip").hidden = true; };
// One tab stop per chart; arrow keys go from point to point.
export function walkable(plot, dots, describe, choose, width) {
  dots.forEach((dot, k) => {
    dot.setAttribute("tabindex", k ? "-1" : "0");
    dot.setAttribute("role", "button");
    dot.setAttribute("aria-label", describe(k).join(", "));
    const show = () => showTip(plot, Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy")), describe(k), width);
    dot.addEventListener("focus", show);
    dot.addEventListener("blur", () => hideTip(plot));
    dot.addEventListener("pointerenter", show);
    dot.addEventListener("pointerleave", () => hideTip(plot));
    dot.addEventListener("click", event => { event.stopPropagation(); choose(k); });
    dot.addEventListener("keydown", event => {
      const to = { ArrowRight: k + 1, ArrowUp: k + 1, ArrowLeft: k - 1, ArrowDown: k - 1, Home: 0, End: dots.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(k);
      else if (to === undefined) return;
      else if (dots[to]) {
        dot.setAttribute("tabindex", "-1");
        dots[to].setAttribute("tabindex", "0");
        dots[to].focus();
      }
      event.preventDefault();
    });
  });
}
export function legend(place, entries) {
  place.replaceChildren(...entries.map(([kind, text]) => {
    const entry = document.createElement("span");
    entry.className = `l-${kind}`;
    entry.append(document.createElement("i"), text);
    return entry;
  }));
}

// -- the curve of an order ----------------------------------------------------------------------------------------

// What is drawn: held-out folds if they are there, else the training data.
export const mainCurve = order => order.curve ?? order.training;
// An order that is only a first guess has no curve yet.
export const isJudged = order => Boolean(order?.steps.length && order.measure && mainCurve(order));

// Draw the order's curve. Returns the scales, so that a budget can be marked without drawing all again.
export function drawOrder(plot, order, unit, height, choose) {
  const { svg, width } = canvas(plot, height), main = mainCurve(order), { measure, steps } = order, total = order.total_cost;
  const box = { left: 54, right: width - 10, top: 30, bottom: height - 42 };
  const curves = [main, ...(order.curve && order.training ? [order.training] : [])];
  const x = costScale(total, box.left, box.right, width < 480 ? 4 : 7);
  const y = valueScale(curves.flatMap(bounds), box.bottom, box.top, 5);
  const area = draw(svg, "rect", { class: "spent-area", x: box.left, y: box.top, height: box.bottom - box.top, width: 0 });
  axes(svg, box, x, y, measure, unit);
  drawBand(svg, main, x, y, total);
  if (curves.length > 1) drawSteps(svg, order.training, x, y, total, "line-training");
  drawSteps(svg, main, x, y, total, "line-main");
  const now = draw(svg, "line", { class: "now", y1: box.top, y2: box.bottom });
  const stages = [{ cumulative_cost: 0, group: "no group" }, ...steps];
  const value = k => main.values[k ? lastWithin(main.costs, stages[k].cumulative_cost) : 0];
  const shown = stages.map((_, k) => k).filter(k => value(k) !== null && value(k) !== undefined), small = shown.length > 60;
  const dots = shown.map(k => draw(svg, "circle", { class: small ? "dot small" : "dot", r: small ? 1.75 : 4, cx: x.place(stages[k].cumulative_cost), cy: y.place(value(k)) }));
  const mark = draw(svg, "circle", { class: "mark", r: 7 });
  const describe = i => {
    const stage = stages[shown[i]], at = shown[i] ? lastWithin(main.costs, stage.cumulative_cost) : 0;
    return [shown[i] ? `${shown[i]}. ${stage.group}` : "No group", `budget ${amount(stage.cumulative_cost)}`, `${measure.label} ${withError(main.values[at], errorAt(main, at), measure.style)}`];
  };
  walkable(plot, dots, describe, i => choose(stages[shown[i]].cumulative_cost), width);
  const scales = { svg, x, y, box, area, now, mark, width, main, total };
  markBudget(scales, null);
  return scales;
}
export function markBudget({ x, y, box, area, now, mark, main }, budget) {
  const none = budget === null, value = none ? null : main.values[lastWithin(main.costs, budget)] ?? null;
  for (const node of [area, now, mark]) node.setAttribute("visibility", none || (node === mark && value === null) ? "hidden" : "visible");
  if (none) return;
  area.setAttribute("width", Math.max(0, x.place(budget) - box.left));
  now.setAttribute("x1", x.place(budget));
  now.setAttribute("x2", x.place(budget));
  mark.setAttribute("cx", x.place(budget));
  if (value !== null) mark.setAttribute("cy", y.place(value));
}
export function curveLegend(place, order) {
  const held = order.curve !== null, folds = order.measure.folds;
  legend(place, [
    ["main", held ? `new rows (mean of ${folds} folds)` : "training data"],
    ...(held && order.curve.errors?.length ? [["band", "± one standard error"]] : []),
    ...(held && order.training ? [["training", "training data"]] : []),
  ]);
}
export const describeValue = (order, budget) => {
  const main = mainCurve(order), k = lastWithin(main.costs, budget);
  return { value: main.values[k] ?? null, error: errorAt(main, k), text: number(main.values[k] ?? null, order.measure.style) };
};
