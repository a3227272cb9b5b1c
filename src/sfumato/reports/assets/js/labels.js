/**
 * @typedef {{text: string, x: number, y: number, width: number, room: number, weight: number,
 *   strong: boolean}} Candidate room: pixels free for the text; heavier ones are placed first
 */

/**
 * Labels that fit their place and touch no other, the most important first.
 * @param {Candidate[]} candidates
 * @param {number} height of a line
 * @param {{width: number, height: number}} screen
 * @param {number} most
 * @returns {Candidate[]}
 */
export function placeLabels(candidates, height, screen, most) {
  /** @type {Candidate[]} */
  const placed = [];
  for (const c of [...candidates].sort((a, b) => b.weight - a.weight)) {
    if (placed.length >= most) break;
    if (c.width > c.room) continue;
    const outside = c.x - c.width / 2 < 4 || c.x + c.width / 2 > screen.width - 4 || c.y < height || c.y > screen.height - height;
    if (outside) continue;
    const touches = placed.some(
      (p) => Math.abs(p.x - c.x) < (p.width + c.width) / 2 + 6 && Math.abs(p.y - c.y) < height + 3,
    );
    if (!touches) placed.push(c);
  }
  return placed;
}
