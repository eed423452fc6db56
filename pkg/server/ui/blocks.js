// Parses Markdown into blocks. Each block has a kind, its first line, and its
// content. Each line is read a bounded number of times: nesting is limited, and no
// pattern backtracks over a line.

const MAX_DEPTH = 8;
const MAX_COLUMNS = 50;

const FENCE = /^[ \t]*(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const UNDERLINE = /^ {0,3}(=+|-{2,})[ \t]*$/;
const TABLE_RULE = /^[ \t|:-]+$/;
const TASK = /^\[([ xX])\] /;

/** parseBlocks parses lines into blocks; depth counts the enclosing blocks. */
export function parseBlocks(lines, depth = 0) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const { to, ...block } = parseBlock(lines, at, depth);
    blocks.push({ ...block, depth, from: at });
    at = to;
  }
  return blocks;
}

const isBlank = (line) => line.trim() === '';

function parseBlock(lines, at, depth) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (isFence(line)) return parseFence(lines, at);
  if (heading) return { kind: 'heading', level: heading[1].length, text: headingText(line), to: at + 1 };
  if (isRule(line)) return { kind: 'rule', to: at + 1 };
  if (depth < MAX_DEPTH && QUOTE.test(line)) return parseQuote(lines, at);
  if (depth < MAX_DEPTH && ITEM.test(line)) return parseList(lines, at);
  if (isTable(lines, at)) return parseTable(lines, at);
  return parseParagraph(lines, at, depth);
}

// startsBlock reports whether a line ends the preceding paragraph.
function startsBlock(lines, at, depth) {
  const line = lines[at];
  if (isFence(line) || HEADING.test(line) || isRule(line)) return true;
  if (depth < MAX_DEPTH && (QUOTE.test(line) || interruptsParagraph(line))) return true;
  return isTable(lines, at);
}

// An item interrupts a paragraph only if it has text, and a numbered item only if
// its number is 1, because a line may start with a year.
function interruptsParagraph(line) {
  const item = ITEM.exec(line);
  return item !== null && item[0].length < line.trimEnd().length && (!isNumber(item) || parseInt(item[2], 10) === 1);
}

const isNumber = (item) => item[2].length > 1;

function isRule(line) {
  const signs = line.replace(/[ \t]/g, '');
  return signs.length >= 3 && '-*_'.includes(signs[0]) && signs === signs[0].repeat(signs.length);
}

function headingText(line) {
  const text = line.trim();
  let [from, to] = [0, text.length];
  while (text[from] === '#') from++;
  while (to > from && text[to - 1] === '#') to--;
  const isClosed = to < text.length && (to === from || ' \t'.includes(text[to - 1]));
  return text.slice(from, isClosed ? to : text.length).trim();
}

// A line with another backtick after the fence is a code span.
function isFence(line) {
  const fence = FENCE.exec(line);
  return fence !== null && (fence[1][0] === '~' || !fence[2].includes('`'));
}

function parseFence(lines, at) {
  const [, sign, info] = FENCE.exec(lines[at]);
  const indent = indentOf(lines[at]);
  let to = at + 1;
  while (to < lines.length && !closesFence(lines[to], sign)) to++;
  const content = lines.slice(at + 1, to).map((line) => stripIndent(line, indent));
  return { kind: 'code', info: info.trim(), lines: content, to: Math.min(to + 1, lines.length) };
}

function closesFence(line, sign) {
  const text = line.trim();
  return text.length >= sign.length && text[0] === sign[0] && text === sign[0].repeat(text.length);
}

function parseQuote(lines, at) {
  const content = [];
  let to = at;
  for (; to < lines.length && !isBlank(lines[to]); to++) {
    if (!QUOTE.test(lines[to]) && (isBlank(content.at(-1)) || startsBlock(lines, to, 0))) break;
    content.push(lines[to].replace(QUOTE, ''));
  }
  return { kind: 'quote', lines: content, to };
}

// parseList reads items of one kind. Lines indented by two columns more than the
// first item belong to the preceding item: models rarely indent further.
function parseList(lines, at) {
  const first = ITEM.exec(lines[at]);
  const base = indentOf(lines[at]);
  const items = [];
  let to = at;
  while (to < lines.length) {
    const next = skipBlankLines(lines, to);
    if (!isSibling(lines[next], first, base)) break;
    const read = readItem(lines, next, base);
    items.push(read.item);
    to = read.to;
  }
  return { kind: 'list', isOrdered: isNumber(first), start: parseInt(first[2], 10), items, to };
}

function isSibling(line, first, base) {
  const item = line === undefined ? null : ITEM.exec(line);
  return item !== null && item[2].at(-1) === first[2].at(-1) && indentOf(line) < base + 2 && !isRule(line);
}

function readItem(lines, at, base) {
  const marker = ITEM.exec(lines[at])[0].length;
  const rest = lines[at].slice(marker);
  const gap = Math.min(4, Math.max(1, indentOf(rest)));
  const text = stripIndent(rest, gap);
  const task = TASK.exec(text);
  const content = [task ? text.slice(4) : text];
  let indent = 0; // of the following lines of the item, at most that of its text
  let to = at + 1;
  for (; to < lines.length; to++) {
    if (isBlank(lines[to])) {
      const next = skipBlankLines(lines, to);
      if (next === lines.length || indentOf(lines[next]) < base + 2) break;
      content.push('');
      to = next - 1;
    } else if (indentOf(lines[to]) >= base + 2) {
      indent ||= Math.min(indentOf(lines[to]), marker + gap);
      content.push(stripIndent(lines[to], indent));
    } else if (ITEM.test(lines[to]) || startsBlock(lines, to, 0)) break;
    else content.push(lines[to]);
  }
  return { item: { lines: content, isDone: task ? task[1] !== ' ' : null }, to };
}

function skipBlankLines(lines, at) {
  let next = at;
  while (next < lines.length && isBlank(lines[next])) next++;
  return next;
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  if (!rule || !lines[at].includes('|') || !rule.includes('-') || !TABLE_RULE.test(rule)) return false;
  const [head, align] = [splitRow(lines[at]), splitRow(rule)];
  return head.length === align.length && head.length <= MAX_COLUMNS && align.every((cell) => /^:?-+:?$/.test(cell));
}

function parseTable(lines, at) {
  const align = splitRow(lines[at + 1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'end') : null));
  const rows = [];
  let to = at + 2;
  for (; to < lines.length && !isBlank(lines[to]) && !startsBlock(lines, to, 0); to++) rows.push(splitRow(lines[to]).slice(0, MAX_COLUMNS));
  return { kind: 'table', head: splitRow(lines[at]), align, rows, to };
}

// splitRow splits a row into cells; \| does not separate cells.
function splitRow(line) {
  const text = line.trim();
  const cells = [];
  let from = text.startsWith('|') ? 1 : 0;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '|') {
      cells.push(text.slice(from, at));
      from = at + 1;
    }
  }
  if (from < text.length) cells.push(text.slice(from));
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function parseParagraph(lines, at, depth) {
  let to = at + 1;
  for (; to < lines.length && !isBlank(lines[to]); to++) {
    const underline = UNDERLINE.exec(lines[to]);
    if (underline) return { kind: 'heading', level: underline[1][0] === '=' ? 1 : 2, text: lines.slice(at, to).join('\n').trim(), to: to + 1 };
    if (startsBlock(lines, to, depth)) break;
  }
  return { kind: 'paragraph', lines: lines.slice(at, to), to };
}

// indentOf counts columns; a tab is four columns.
function indentOf(line) {
  let columns = 0;
  for (const c of line) {
    if (c === ' ') columns++;
    else if (c === '\t') columns += 4;
    else break;
  }
  return columns;
}

function stripIndent(line, columns) {
  let [at, left] = [0, columns];
  for (; left > 0 && (line[at] === ' ' || line[at] === '\t'); at++) left -= line[at] === '\t' ? 4 : 1;
  return line.slice(at);
}
