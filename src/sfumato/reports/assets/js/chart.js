import { ticks } from "./breaks.js";

/**
 * @typedef {{values: ArrayLike<number>, colour: string, width: number, dash: number[]}} Line
 * @typedef {{lower: ArrayLike<number>, upper: ArrayLike<number>, colour: string}} Band
 * @typedef {{left: number, top: number, width: number, height: number,
 *   x: (slot: number) => number, y: (value: number) => number}} Frame
 */

/**
 * A canvas sized to its element, cleared, in pixels of the page.
 * @param {HTMLCanvasElement} canvas
 * @returns {{ctx: CanvasRenderingContext2D, width: number, height: number, ratio: number} | null}
 */
export function prepare(canvas) {
  const ctx = canvas.getContext("2d");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!ctx || !width || !height || document.documentElement.dataset.printing) return null;
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return { ctx, width, height, ratio };
}

/**
 * Lines over slots, with an interval behind them and days below them.
 * @param {HTMLCanvasElement} canvas
 * @param {{lines: Line[], band: Band | null, days: {slot: number, name: string}[], slots: number,
 *   mark: number, second: number, format: (v: number) => string,
 *   inks: import("./mapdraw.js").Inks, zero?: boolean}} plot
 * @returns {Frame | null}
 */
export function drawSeries(canvas, plot) {
  const made = prepare(canvas);
  if (!made) return null;
  const { ctx, width, height } = made;
  const { inks } = plot;
  const [low, high] = range(plot);
  const marks = ticks(low, high, 4);
  const bottom = Math.min(low, marks[0]);
  const top = Math.max(high, marks[marks.length - 1]);
  const left = 10 + Math.max(...marks.map((v) => ctx.measureText(plot.format(v)).width));
  const frame = { left, top: 8, width: width - left - 8, height: height - 30 };
  const x = (/** @type {number} */ slot) => frame.left + ((slot + 0.5) / plot.slots) * frame.width;
  const y = (/** @type {number} */ v) => frame.top + frame.height * (1 - (v - bottom) / (top - bottom || 1));
  axes(ctx, plot, marks, { ...frame, x, y });
  ctx.save();
  ctx.beginPath();
  ctx.rect(frame.left, frame.top - 4, frame.width, frame.height + 8);
  ctx.clip();
  if (plot.band) fillBand(ctx, plot.band, plot.slots, x, y);
  for (const line of plot.lines) stroke(ctx, line, plot.slots, x, y);
  for (const [slot, dash] of /** @type {[number, number[]][]} */ ([[plot.second, [3, 3]], [plot.mark, []]])) {
    if (slot < 0) continue;
    ctx.setLineDash(dash);
    ctx.strokeStyle = inks.ink;
    ctx.lineWidth = 1.25;
    ctx.beginPath();
    ctx.moveTo(x(slot), frame.top - 4);
    ctx.lineTo(x(slot), frame.top + frame.height);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  const first = plot.lines[plot.lines.length - 1];
  const value = first ? first.values[plot.mark] : NaN;
  if (value === value) {
    ctx.beginPath();
    ctx.arc(x(plot.mark), y(value), 3.5, 0, 2 * Math.PI);
    ctx.fillStyle = first.colour;
    ctx.fill();
    ctx.strokeStyle = inks.paper;
    ctx.stroke();
  }
  ctx.restore();
  return { ...frame, x, y };
}

/** @param {{lines: Line[], band: Band | null, slots: number, zero?: boolean}} plot */
function range(plot) {
  let low = plot.zero === false ? Infinity : 0;
  let high = plot.zero === false ? -Infinity : 1e-9;
  const sets = [...plot.lines.map((l) => l.values), ...(plot.band ? [plot.band.upper, plot.band.lower] : [])];
  for (const set of sets) {
    for (let k = 0; k < plot.slots; k += 1) {
      if (set[k] < low) low = set[k];
      if (set[k] > high) high = set[k];
    }
  }
  return low > high ? [0, 1] : [low, high];
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{days: {slot: number, name: string}[], slots: number, format: (v: number) => string,
 *   inks: import("./mapdraw.js").Inks}} plot
 * @param {number[]} marks
 * @param {Frame} frame
 */
function axes(ctx, plot, marks, frame) {
  const { inks } = plot;
  ctx.lineWidth = 1;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (const v of marks) {
    const at = Math.round(frame.y(v)) + 0.5;
    ctx.strokeStyle = inks.grid;
    ctx.beginPath();
    ctx.moveTo(frame.left, at);
    ctx.lineTo(frame.left + frame.width, at);
    ctx.stroke();
    ctx.fillStyle = inks.muted;
    ctx.fillText(plot.format(v), frame.left - 5, at);
  }
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  let free = -Infinity;
  for (const { slot, name } of plot.days) {
    const at = frame.left + (slot / plot.slots) * frame.width;
    ctx.strokeStyle = inks.grid;
    ctx.beginPath();
    ctx.moveTo(at, frame.top);
    ctx.lineTo(at, frame.top + frame.height + 5);
    ctx.stroke();
    const wide = ctx.measureText(name).width;
    if (at + 3 < free || at + 3 + wide > frame.left + frame.width + 8) continue;
    ctx.fillStyle = inks.muted;
    ctx.fillText(name, at + 3, frame.top + frame.height + 15);
    free = at + 3 + wide + 6;
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Band} band
 * @param {number} slots
 * @param {(k: number) => number} x
 * @param {(v: number) => number} y
 */
function fillBand(ctx, band, slots, x, y) {
  ctx.fillStyle = band.colour;
  let from = 0;
  while (from < slots) {
    while (from < slots && !(band.lower[from] === band.lower[from])) from += 1;
    let to = from;
    while (to < slots && band.lower[to] === band.lower[to]) to += 1;
    ctx.beginPath();
    for (let k = from; k < to; k += 1) ctx.lineTo(x(k), y(band.upper[k]));
    for (let k = to - 1; k >= from; k -= 1) ctx.lineTo(x(k), y(band.lower[k]));
    ctx.fill();
    from = to;
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Line} line
 * @param {number} slots
 * @param {(k: number) => number} x
 * @param {(v: number) => number} y
 */
function stroke(ctx, line, slots, x, y) {
  ctx.strokeStyle = line.colour;
  ctx.lineWidth = line.width;
  ctx.lineJoin = "round";
  ctx.setLineDash(line.dash);
  ctx.beginPath();
  let down = false;
  for (let k = 0; k < slots; k += 1) {
    const v = line.values[k];
    if (!(v === v)) down = false;
    else if (down) ctx.lineTo(x(k), y(v));
    else {
      ctx.moveTo(x(k), y(v));
      down = true;
    }
  }
  ctx.stroke();
  ctx.setLineDash([]);
}
