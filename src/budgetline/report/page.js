"use strict";
(() => {
  const record = JSON.parse(document.getElementById("record").textContent);
  const { sequence, measure, unit, curves } = record;
  const training = curves.find(c => c.kind === "training");
  const main = curves.find(c => c.kind === "cross-validated") || training;
  const limit = record.certificate ? record.certificate.curve : null;
  const plans = record.plans || null;
  const costs = training.costs, total = costs[costs.length - 1], SLACK = 1e-12;
  const svgSpace = document.querySelector("svg").namespaceURI;
  const $ = id => document.getElementById(id);

  // -- numbers as text: as in formatting.py -----------------------------------------------------------------

  const amount = x => String(Number(x.toPrecision(6)));
  const minus = text => text.replace("-", Number(text) === 0 ? "" : "−");
  function number(x) {
    if (x === null || x === undefined) return "–";
    if (measure.style === "percent") return minus((100 * x).toFixed(1)) + " %";
    return minus(measure.style === "fixed" ? x.toFixed(3) : String(Number(x.toPrecision(4))));
  }
  const change = x => (x === null ? "–" : (number(x).startsWith("−") ? "" : "+") + number(x).replace(" %", " pp"));
  const errorAt = (curve, k) => (curve.errors.length ? curve.errors[k] : null);
  const withError = k => errorAt(main, k) === null ? number(main.values[k])
    : number(main.values[k]).replace(" %", "") + " ± " + number(errorAt(main, k));
  const difference = (a, b) => (a === null || b === null ? null : b - a);
  const percent = x => (x === null ? "–" : minus((100 * x).toPrecision(3)) + " %");

  // -- what a budget buys -----------------------------------------------------------------------------------

  function lastWithin(costs, budget) {
    let k = 0;
    while (k + 1 < costs.length && costs[k + 1] <= budget * (1 + SLACK)) k++;
    return k;
  }
  const stageAt = budget => lastWithin(costs, budget);
  const pointAt = budget => lastWithin(main.costs, budget);
  const pointOf = stage => (stage ? pointAt(costs[stage]) : 0);
  const shareAdded = k => difference(k ? sequence[k - 1].explained : 0, sequence[k].explained);

  // -- drawing ----------------------------------------------------------------------------------------------

  function draw(parent, name, attributes, text) {
    const node = document.createElementNS(svgSpace, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }
  let onPaper = 0;
  const widthOf = id => onPaper || $(id).clientWidth;
  function canvas(id, height) {
    const svg = $(id).querySelector("svg"), width = onPaper || Math.max(260, Math.round($(id).clientWidth));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return { svg, width, height };
  }
  function niceStep(low, high, wanted) {
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    return power * [1, 2, 5, 10].find(m => m * power >= raw * (1 - SLACK));
  }
  function niceTicks(low, high, wanted, step = niceStep(low, high, wanted)) {
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }
  // Linear, or logarithmic where positive values span much; zeros then sit on a line of their own at the start.
  function scaleOf(values, from, to, wanted, mayBeLog) {
    const known = values.filter(v => v !== null), positive = known.filter(v => v > 0);
    let low = Math.min(...known), high = Math.max(...known);
    if (mayBeLog && positive.length && high / Math.min(...positive) > 30) {
      const least = Math.log10(Math.min(...positive)), most = Math.log10(high);
      const gap = low <= 0 ? 26 * Math.sign(to - from) : 0, pad = 14 * Math.sign(to - from);
      const place = v => v > 0 ? from + gap + pad + (to - from - gap - 2 * pad) * (Math.log10(v) - least) / (most - least) : from + pad / 2;
      const ticks = low <= 0 ? [0] : [];
      for (let e = Math.ceil(least); e <= most; e++) ticks.push(Number(`1e${e}`));
      if (ticks.length < 3) for (let e = Math.floor(least); e <= most; e++) for (const m of [2, 5]) if (Math.log10(m * 10 ** e) >= least && Math.log10(m * 10 ** e) <= most) ticks.push(Number(`${m}e${e}`));
      return { place, ticks };
    }
    if (mayBeLog) low = Math.min(0, low);
    if (!known.length) [low, high] = [0, 1];
    if (high === low) [low, high] = [low - (mayBeLog ? 0 : 0.5), high + 0.5];
    const step = niceStep(low, high, wanted), from0 = Math.floor(low / step + 1e-9) * step, to0 = Math.ceil(high / step - 1e-9) * step;
    return { place: v => from + (to - from) * (v - from0) / (to0 - from0), ticks: niceTicks(from0, to0, wanted, step) };
  }
  function axes(svg, box, x, y, xText, yText, xName, yName) {
    for (const tick of y.ticks) {
      draw(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y.place(tick), y2: y.place(tick) });
      draw(svg, "text", { x: box.left - 8, y: y.place(tick) + 4, "text-anchor": "end" }, yText(tick));
    }
    draw(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
    for (const tick of x.ticks) {
      draw(svg, "line", { class: "axis", x1: x.place(tick), x2: x.place(tick), y1: box.bottom, y2: box.bottom + 4 });
      draw(svg, "text", { x: x.place(tick), y: box.bottom + 18, "text-anchor": "middle" }, xText(tick));
    }
    draw(svg, "text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, xName);
    draw(svg, "text", { x: 0, y: 12 }, yName);
  }
  function showTip(plot, x, y, lines, width) {
    const tip = plot.querySelector(".tip"), bold = document.createElement("b");
    bold.textContent = lines[0];
    tip.replaceChildren(bold, ...lines.slice(1).flatMap((line, k) => (k ? [document.createElement("br"), line] : [line])));
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(x - tip.offsetWidth / 2, width - tip.offsetWidth))}px`;
    tip.style.top = `${y - tip.offsetHeight - 14 < -40 ? y + 16 : y - tip.offsetHeight - 14}px`;
  }
  const hideTip = plot => { plot.querySelector(".tip").hidden = true; };
  // One tab stop per chart; arrow keys go from point to point.
  function walkable(plot, dots, describe, choose, width) {
    dots.forEach((dot, k) => {
      dot.setAttribute("tabindex", k ? "-1" : "0");
      dot.setAttribute("role", "button");
      dot.setAttribute("aria-label", describe(k).join(", "));
      const show = () => showTip(plot, Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy")), describe(k), width);
      dot.addEventListener("focus", show);
      dot.addEventListener("blur", () => hideTip(plot));
      dot.addEventListener("pointerenter", show);
      dot.addEventListener("pointerleave", () => hideTip(plot));
      dot.addEventListener("click", () => choose(k));
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

  // -- the curve --------------------------------------------------------------------------------------------

  function describeStage(k) {
    const lines = [k ? `Stage ${k}: ${sequence[k - 1].group}` : "No groups", `cost ${amount(costs[k])}`, `${measure.label} ${withError(pointOf(k))}`];
    if (main !== training) lines.push(`training ${number(training.values[k])}`);
    return lines;
  }
  // Runs of points whose values are known, as steps from each cost to the next.
  function steps(curve, value, x, y) {
    const runs = [];
    let run = null;
    curve.costs.forEach((cost, k) => {
      const v = value(k), until = k + 1 < curve.costs.length ? curve.costs[k + 1] : cost;
      if (v === null) { run = null; return; }
      if (!run) runs.push(run = []);
      run.push([x.place(cost), y.place(v)], [x.place(until), y.place(v)]);
    });
    return runs;
  }
  const path = points => points.map((p, k) => `${k ? "L" : "M"}${p[0].toFixed(2)} ${p[1].toFixed(2)}`).join("");
  let chart = null;
  function drawCurve() {
    const { svg, width, height } = canvas("curve", widthOf("curve") < 480 ? 280 : 380);
    const box = { left: measure.style === "percent" ? 54 : 52, right: width - 10, top: 30, bottom: height - 42 };
    const drawn = [...curves, ...(plans ? [plans.curve] : []), ...(limit ? [limit] : [])];
    const bounds = drawn.flatMap(c => c.values.flatMap((v, k) => v === null ? [] : [v - (errorAt(c, k) || 0), v + (errorAt(c, k) || 0)]));
    const x = { place: c => box.left + (box.right - box.left) * (total ? c / total : 0), ticks: total ? niceTicks(0, total, width < 480 ? 4 : 7) : [0] };
    const y = scaleOf(bounds, box.bottom, box.top, 6, false);
    const area = draw(svg, "rect", { class: "spent-area", x: box.left, y: box.top, height: box.bottom - box.top, width: 0 });
    const above = limit ? steps(limit, k => limit.values[k], x, y)[0] : [];
    if (limit) draw(svg, "path", { class: "beyond", d: path([...above, [above.at(-1)[0], box.top], [above[0][0], box.top]]) + "Z" });
    const tickText = measure.style === "percent" ? t => minus(String(Number((100 * t).toPrecision(6)))) + " %" : t => minus(String(t));
    axes(svg, box, x, y, amount, tickText, `budget in ${unit}`, measure.label + (measure.greater_is_better ? "" : " (lower is better)"));
    if (main.errors.length) {
      const edge = sign => k => (main.values[k] === null || main.errors[k] === null ? null : main.values[k] + sign * main.errors[k]);
      const low = steps(main, edge(-1), x, y);
      steps(main, edge(1), x, y).forEach((run, k) => draw(svg, "path", { class: "band", d: path([...run, ...low[k].reverse()]) + "Z" }));
    }
    if (limit) draw(svg, "path", { class: "line line-bound", d: path(above) });
    if (plans) for (const run of steps(plans.curve, k => plans.curve.values[k], x, y)) draw(svg, "path", { class: "line line-plans", d: path(run) });
    for (const curve of [...curves].reverse()) {
      const kind = curve === main ? "main" : curve.kind;
      for (const run of steps(curve, k => curve.values[k], x, y)) draw(svg, "path", { class: `line line-${kind}`, d: path(run) });
    }
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
    const frame = chart.svg.getBoundingClientRect(), { left, right } = chart.box;
    const at = (event.clientX - frame.left) * chart.width / frame.width;
    return Math.min(total, Math.max(0, (at - left) / (right - left) * total));
  }
  function legend(place, entries) {
    for (const [kind, text] of entries) {
      const entry = document.createElement("span");
      entry.className = `l-${kind}`;
      entry.append(document.createElement("i"), text);
      place.append(entry);
    }
  }

  // -- cost and gain ----------------------------------------------------------------------------------------

  let points = [];
  function drawScatter() {
    const { svg, width, height } = canvas("scatter", widthOf("scatter") < 480 ? 340 : 400);
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

  // -- methods ----------------------------------------------------------------------------------------------

  function drawMethods() {
    if (!record.comparison) return;
    const { methods } = record.comparison, narrow = widthOf("methods") < 560, row = narrow ? 42 : 30;
    const { svg, width, height } = canvas("methods", methods.length * row + 60);
    const box = { left: narrow ? 12 : 170, right: width - 24, top: 24, bottom: height - 32 };
    const bounds = methods.flatMap(m => m.timeliness === null ? [] : [m.timeliness - (m.timeliness_error || 0), m.timeliness + (m.timeliness_error || 0)]);
    const x = scaleOf(bounds, box.left + 8, box.right - 8, narrow ? 3 : 5, false);
    draw(svg, "text", { x: 0, y: 12 }, `timeliness: mean ${measure.label} over all budgets`);
    for (const tick of x.ticks) {
      draw(svg, "line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: box.top, y2: box.bottom });
      draw(svg, "text", { x: x.place(tick), y: box.bottom + 18, "text-anchor": "middle" }, number(tick));
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

  // -- the chosen budget ------------------------------------------------------------------------------------

  let budget = 0;
  function chip(name, kind) {
    const found = document.createElement("li");
    found.textContent = name;
    found.className = kind;
    return found;
  }
  // What the budget buys if it is known in advance, where that differs from the first groups of the order.
  function showKnown(bought) {
    const set = plans ? plans.sets.findLast(s => s.cost <= budget * (1 + SLACK)) : undefined;
    const without = set ? bought.filter(name => !set.groups.includes(name)) : [];
    const more = set ? set.groups.filter(name => !bought.includes(name)) : [];
    $("known").hidden = !plans;
    if (!plans) return;
    const k = lastWithin(plans.curve.costs, budget), value = plans.curve.values[k], effect = difference(main.values[pointAt(budget)], value);
    const differs = without.length + more.length > 0, better = effect !== null && (measure.greater_is_better ? effect : -effect) > 0;
    $("known-label").textContent = `Known in advance: ${differs && better ? "buy these instead" : differs ? "nothing better is expected" : "the same groups"}`;
    $("known-groups").replaceChildren(...(differs && better ? set.groups.map(name => chip(name, more.includes(name) ? "added" : "")) : []));
    const error = errorAt(plans.curve, k), expected = `${number(value).replace(error === null ? "" : " %", "")}${error === null ? "" : ` ± ${number(error)}`}`;
    $("known-what").textContent = differs && better
      ? `cost ${amount(set.cost)}${without.length ? `, without ${without.join(", ")}` : ""}; expected ${measure.label} ${expected} (${change(effect)})`
      : differs ? "another set explains more of the training data, but no more is expected of new rows" : "";
  }
  const slider = $("budget"), field = $("budget-number");
  function setBudget(wanted, by) {
    budget = Math.min(total, Math.max(0, wanted));
    if (by !== slider) slider.value = String(budget);
    if (by !== field) field.value = String(Number(budget.toPrecision(12)));
    const stage = stageAt(budget), spent = costs[stage], rest = budget - spent, next = sequence[stage], point = pointAt(budget);
    $("quality").textContent = number(main.values[point]);
    $("quality-error").textContent = errorAt(main, point) === null ? "" : `± ${number(errorAt(main, point))}`;
    $("quality-training").textContent = main === training ? "" : `${number(training.values[stage])} on the training data`;
    $("spent").textContent = `${amount(spent)} of ${amount(total)} ${unit}`;
    $("left").textContent = rest > total * SLACK ? `${amount(rest)} left, too little for the next group` : "";
    $("count").textContent = `${stage} of ${sequence.length}`;
    const bought = sequence.slice(0, stage).map(s => s.group);
    $("groups").replaceChildren(...(stage ? bought : ["none"]).map(name => chip(name, stage ? "" : "none")));
    showKnown(bought);
    $("next-group").textContent = next ? next.group : "none: all groups are computed";
    const effect = next ? change(difference(main.values[pointOf(stage)], main.values[pointOf(stage + 1)])) : "";
    $("next-what").textContent = next
      ? `costs ${amount(next.cost)}, affordable from a budget of ${amount(costs[stage + 1])}; changes ${measure.label} by ${effect}${main === training ? " (training)" : ""}` : "";
    const text = `${amount(budget)} ${unit}: ${stage} of ${sequence.length} groups, ${measure.label} ${number(main.values[point])}`;
    slider.setAttribute("aria-valuetext", text);
    $("status").textContent = text;
    $("previous").disabled = budget <= 0;
    $("next").disabled = budget >= total;
    for (const row of document.querySelectorAll(".order tr[data-row]")) row.classList.toggle("bought", Number(row.dataset.row) <= stage);
    moveMark();
    markPoints();
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

  // -- start ------------------------------------------------------------------------------------------------

  document.documentElement.classList.add("js");
  $("live").hidden = false;
  $("quality-label").textContent = main === training ? `${measure.label} on the training data` : `Expected ${measure.label}: mean of ${measure.folds} folds ± standard error`;
  legend($("curve-legend"), [
    ["main", main.label],
    ...(main.errors.length ? [["band", "± one standard error"]] : []),
    ...(main === training ? [] : [["training", training.label]]),
    ...(plans ? [["plans", plans.curve.label]] : []),
    ...(limit ? [["bound", limit.label]] : []),
  ]);
  const plot = $("curve");
  plot.addEventListener("pointermove", event => {
    if (event.target.classList.contains("dot")) return;
    const stage = stageAt(budgetUnder(event)), value = main.values[pointOf(stage)];
    if (value !== null) showTip(plot, chart.x.place(costs[stage]), chart.y.place(value), describeStage(stage), chart.width);
  });
  plot.addEventListener("pointerleave", () => hideTip(plot));
  plot.addEventListener("click", event => { if (!event.target.classList.contains("dot")) setBudget(budgetUnder(event)); });
  function drawAll() {
    drawCurve();
    drawScatter();
    drawMethods();
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
})();
