// Pictures of effects, as in the report: a curve with a rug, bars of levels, shaded cells of a pair.

import { draw, minus } from "./charts.js";
import { el } from "./dom.js";
import { cut } from "./format.js";

const WIDTH = 340, MOST_BARS = 14, MOST_ROWS = 20;
const short = v => minus(String(Number(v.toPrecision(3))));
const place = v => minus(String(Number(v.toPrecision(5))));
const labelsOf = axis => [...axis.numbers.map(place), ...axis.spikes.map(place), ...axis.levels];
function rangeOf(values) {
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  return low < high ? [low, high] : [-1, 1];
}
const text = (svg, x, y, words, anchor = "start", most = 40) => draw(svg, "text", { x, y, "text-anchor": anchor }, cut(words, most));

function curve(svg, axis, values) {
  const left = 52, top = 10, bottom = 140, slot = 50, n = axis.numbers.length, aside = labelsOf(axis).slice(n);
  const right = WIDTH - 8 - slot * aside.length, [low, high] = rangeOf(values), start = axis.numbers[0], stop = axis.numbers[n - 1];
  const across = x => left + (right - left) * (stop > start ? (x - start) / (stop - start) : 0.5);
  const up = v => bottom - (bottom - top) * (v - low) / (high - low);
  draw(svg, "line", { class: "axis", x1: left, x2: WIDTH - 8, y1: up(0), y2: up(0) });
  for (const v of [low, 0, high]) if (v === 0 || Math.abs(up(v) - up(0)) > 14) text(svg, left - 6, up(v) + 4, short(v), "end");
  draw(svg, "polyline", { class: "line line-main", points: axis.numbers.map((x, k) => `${across(x).toFixed(1)},${up(values[k]).toFixed(1)}`).join(" ") });
  for (const x of axis.rug) if (start <= x && x <= stop) draw(svg, "line", { class: "rug", x1: across(x), x2: across(x), y1: bottom + 4, y2: bottom + 10 });
  text(svg, left, bottom + 25, place(start));
  text(svg, right, bottom + 25, place(stop), "end");
  aside.forEach((label, k) => {
    const x = right + slot * (k + 0.5) + 4, v = values[n + k];
    draw(svg, "line", { class: "whisker", x1: x, x2: x, y1: up(0), y2: up(v) });
    draw(svg, "circle", { class: "mark-aside", cx: x, cy: up(v), r: 4 });
    text(svg, x, bottom + 25, label.replace(/^\(|\)$/g, ""), "middle", 7);
  });
  return bottom + 32;
}

function bars(svg, axis, values) {
  const largest = values.map((_, k) => k).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, MOST_BARS).sort((a, b) => a - b);
  const [low, high] = rangeOf(values), left = 116, right = WIDTH - 52, step = 19, zero = left - (right - left) * low / (high - low), labels = labelsOf(axis);
  largest.forEach((k, row) => {
    const y = 4 + step * row, end = zero + (right - left) * values[k] / (high - low);
    text(svg, left - 8, y + 11, labels[k], "end", 16);
    draw(svg, "rect", { class: values[k] >= 0 ? "bar-up" : "bar-down", x: Math.min(zero, end), y, width: Math.abs(end - zero), height: step - 5 });
    text(svg, WIDTH - 4, y + 11, short(values[k]), "end");
  });
  const bottom = 4 + step * largest.length, more = values.length - largest.length;
  draw(svg, "line", { class: "axis", x1: zero, x2: zero, y1: 0, y2: bottom });
  if (more) text(svg, left - 8, bottom + 12, `… ${more} more`, "end");
  return bottom + (more ? step : 0) + 4;
}

function cells(svg, [first, second], values) {
  const m = labelsOf(second).length, n = Math.min(labelsOf(first).length, MOST_ROWS), rows = Math.min(m, MOST_ROWS);
  const left = 84, top = 22, bottom = top + Math.max(170, second.levels.length ? 13 * rows : 0);
  const largest = Math.max(...values.map(Math.abs)) || 1, wide = (WIDTH - 8 - left) / n, high = (bottom - top) / rows;
  for (let i = 0; i < n; i++) for (let j = 0; j < rows; j++) {
    const v = values[i * m + j];
    draw(svg, "rect", { class: v >= 0 ? "shade-up" : "shade-down", x: left + i * wide, y: bottom - (j + 1) * high, width: wide, height: high, "fill-opacity": Math.abs(v) / largest });
  }
  text(svg, 2, 12, `↑ ${second.column}`, "start", 26);
  text(svg, WIDTH - 4, bottom + 34, `${first.column} →`, "end", 26);
  const ends = (labels, count) => (count > 1 ? [[0, labels[0]], [count - 1, labels[count - 1]]] : [[0, labels[0]]]);
  for (const [j, label] of second.levels.length ? labelsOf(second).slice(0, rows).map((l, j) => [j, l]) : ends(labelsOf(second), rows)) text(svg, left - 6, bottom - (j + 0.5) * high + 4, label, "end", 12);
  for (const [i, label] of ends(labelsOf(first), n)) text(svg, left + (i ? n * wide : 0), bottom + 16, label, i ? "end" : "start", 16);
  return bottom + 40;
}

export function effectPicture(effect, kind) {
  const name = effect.axes.map(axis => axis.column).join(" × "), caption = effect.output ? `${name}, ${kind} ${effect.output}` : name;
  const figure = el("figure", { class: "effect" }, el("figcaption", {}, caption)), svg = draw(figure, "svg", { role: "img", "aria-label": `Effect of ${caption}` });
  const height = effect.axes.length === 2 ? cells(svg, effect.axes, effect.values)
    : effect.axes[0].numbers.length ? curve(svg, effect.axes[0], effect.values) : bars(svg, effect.axes[0], effect.values);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  return figure;
}
