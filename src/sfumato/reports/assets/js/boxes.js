import { ticks } from "./breaks.js";
import { prepare } from "./chart.js";

/**
 * Five numbers: whisker, box, median, box, whisker.
 * @typedef {{name: string, five: number[], colour: string, strong: boolean}} Box
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Box[]} boxes
 * @param {(v: number) => string} format
 * @param {import("./mapdraw.js").Inks} inks
 * @param {number} bar a level to mark
 */
export function drawBoxes(canvas, boxes, format, inks, bar) {
  const made = prepare(canvas);
  if (!made || !boxes.length) return;
  const { ctx, width, height } = made;
  const top = Math.max(...boxes.map((b) => b.five[4]), 1e-9);
  const marks = ticks(0, top, 5);
  const most = Math.max(top, marks[marks.length - 1]);
  const left = Math.min(width / 3, 12 + Math.max(...boxes.map((b) => ctx.measureText(b.name).width)));
  const [right, bottom] = [width - 16, height - 22];
  const x = (/** @type {number} */ v) => left + ((right - left) * v) / most;
  ctx.textAlign = "center";
  for (const v of marks) {
    ctx.strokeStyle = inks.grid;
    line(ctx, x(v), 4, x(v), bottom);
    ctx.fillStyle = inks.muted;
    ctx.fillText(format(v), x(v), height - 7);
  }
  if (bar <= most) {
    ctx.setLineDash([4, 3]);
    ctx.strokeStyle = inks.ink;
    line(ctx, x(bar), 4, x(bar), bottom);
    ctx.setLineDash([]);
  }
  const row = (bottom - 8) / boxes.length;
  const thick = Math.min(22, row * 0.55);
  ctx.textBaseline = "middle";
  boxes.forEach((box, k) => {
    const y = 6 + row * (k + 0.5);
    const [a, b, c, d, e] = box.five.map(x);
    ctx.textAlign = "right";
    ctx.fillStyle = box.strong ? inks.ink : inks.muted;
    ctx.fillText(box.name, left - 6, y, left - 8);
    ctx.strokeStyle = box.colour;
    ctx.lineWidth = 1.5;
    line(ctx, a, y, e, y);
    for (const end of [a, e]) line(ctx, end, y - thick / 4, end, y + thick / 4);
    ctx.fillStyle = inks.paper;
    ctx.fillRect(b, y - thick / 2, d - b, thick);
    ctx.globalAlpha = box.strong ? 0.55 : 0.3;
    ctx.fillStyle = box.colour;
    ctx.fillRect(b, y - thick / 2, d - b, thick);
    ctx.globalAlpha = 1;
    ctx.strokeRect(b, y - thick / 2, d - b, thick);
    ctx.lineWidth = 2.5;
    line(ctx, c, y - thick / 2, c, y + thick / 2);
    ctx.lineWidth = 1;
  });
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} ax
 * @param {number} ay
 * @param {number} bx
 * @param {number} by
 */
function line(ctx, ax, ay, bx, by) {
  ctx.beginPath();
  ctx.moveTo(ax, ay);
  ctx.lineTo(bx, by);
  ctx.stroke();
}
