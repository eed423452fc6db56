// Diffs of lines and words.

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

// between keeps the longest common subsequence of lines or words; texts that are too long for
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

const MAX_WORDS = 2000;

/**
 * diffWords returns the words of two texts with their status: 'same', 'was' or 'is'.
 * Texts with too many words differ completely.
 */
export function diffWords(before, after) {
  if (before === after) return [['same', before]];
  const [a, b] = [before, after].map((text) => text.slice(0, MAX_WORDS * 40).match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? []);
  if (a.length > MAX_WORDS || b.length > MAX_WORDS || before.length + after.length > MAX_WORDS * 40) return [['was', before], ['is', after]];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const words = [
    ['same', a.slice(0, head).join('')],
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ['same', a.slice(a.length - tail).join('')],
  ];
  return joinEqual(words.filter(([, text]) => text));
}

function joinEqual(words) {
  const joined = [];
  for (const [status, text] of words) {
    if (joined.at(-1)?.[0] === status) joined.at(-1)[1] += text;
    else joined.push([status, text]);
  }
  return joined;
}
