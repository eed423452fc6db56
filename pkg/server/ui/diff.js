// Line diffs.

/** hunks returns lines with their status: 'same', 'was' or 'is'. */
export function hunks(before, after) {
  const [a, b] = [before, after].map((text) => text.replace(/\n$/, '').split('\n'));
  if (a.join('\n') === b.join('\n')) return [['was', before], ['is', after]];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (lines) => lines.map((l) => ['same', l]);
  return [
    ...same(a.slice(Math.max(0, head - 2), head)),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...same(a.slice(a.length - tail, a.length - tail + Math.min(2, tail))),
  ];
}

// between keeps the longest common subsequence of lines; texts that are too long for
// that are shown completely.
function between(a, b) {
  const whole = [...a.map((l) => ['was', l]), ...b.map((l) => ['is', l])];
  if (a.length * b.length > 250_000) return whole;
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const all = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      all.push(['same', a[i++]]);
      j++;
    } else if (i < a.length && (j === b.length || longest[i + 1][j] >= longest[i][j + 1])) all.push(['was', a[i++]]);
    else all.push(['is', b[j++]]);
  }
  return all;
}
