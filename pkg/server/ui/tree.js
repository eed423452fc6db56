// The agent tree, drawn from left to right, or as an indented list if there is not
// enough width.

import { el, svg } from './dom.js';
import { escapeControls } from './text.js';

const WIDTH = 184;
const GAP = { x: 46, y: 14 };
const LINE = 17;
const HEAD = 44;
const MOST_TOOLS = 4;
// Drawings scaled below this factor are not legible.
const SMALLEST = 0.8;
const INDENT = 24;
// Trees with more agents scroll in their own frame.
const MANY = 40;

const KINDS = {
  LlmAgent: 'llm', SequentialAgent: 'sequence', ParallelAgent: 'parallel', LoopAgent: 'loop', RouterAgent: 'router',
  Workflow: 'workflow', FunctionNode: 'function', ToolNode: 'tool', JoinNode: 'join',
};

/** kindOf returns a short name of an agent's class. */
export const kindOf = (agent) => KINDS[agent.agent_class] ?? agent.agent_class ?? agent.type ?? 'agent';

/** below returns the sub-agents of an agent. */
export const below = (agent) => agent.sub_agents ?? agent.graph?.nodes.filter((n) => n.type !== 'start') ?? [];

/** find returns the first agent with a name. */
export function find(agent, name) {
  if (!agent || agent.name === name) return agent;
  for (const child of below(agent)) {
    const hit = find(child, name);
    if (hit) return hit;
  }
  return undefined;
}

/** drawTree draws the agents of an app. */
export function drawTree(section, root, { chosen, changed, active, choose }) {
  const count = root ? size(root) : 0;
  const title = el('h2', {}, 'Agents', el('span', { class: 'dim' }, count > 1 ? ` ${count}` : ''));
  section.hidden = !root;
  if (!root) return;
  const { scrollLeft = 0, scrollTop = 0 } = section.querySelector('.tree') ?? {};
  const focused = section.contains(document.activeElement);
  const available = section.clientWidth;
  let drawn = layOut(root, place);
  if (drawn.right * SMALLEST > available) drawn = layOut(root, placeIndented);
  const { top, nodes, right, bottom } = drawn;
  const drawing = svg('svg', { width: right, height: bottom, viewBox: `0 0 ${right} ${bottom}`, role: 'tree', 'aria-label': 'Agents' },
    svg('defs', {}, svg('marker', { id: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' }, svg('path', { d: 'M0 0.5 7 4 0 7.5z' }))),
    nodes.flatMap(edges), nodes.map((n) => box(n, { chosen, changed, active, choose, first: n === top })));
  drawing.style.minWidth = `${right * SMALLEST}px`;
  drawing.addEventListener('keydown', walk);
  const frame = el('div', { class: 'tree', 'data-large': count > MANY }, drawing);
  section.replaceChildren(title, frame);
  Object.assign(frame, { scrollLeft, scrollTop });
  if (focused) (drawing.querySelector('[aria-selected=true]') ?? drawing.querySelector('[tabindex="0"]'))?.focus();
}

/** lightUp marks the agent that works, or none. */
export function lightUp(section, name) {
  for (const node of section.querySelectorAll('[data-agent]')) node.toggleAttribute('data-busy', node.dataset.agent === name);
}

function layOut(root, placeAll) {
  const top = placeAll(root, 0, { y: 1 });
  const nodes = flat(top);
  const right = Math.max(...nodes.map((n) => n.x + WIDTH + room(n))) + 2;
  const bottom = Math.max(...nodes.map((n) => n.y + n.height)) + 2;
  return { top, nodes, right, bottom };
}

const size = (agent) => 1 + below(agent).reduce((n, child) => n + size(child), 0);
const isLoop = (agent) => agent.agent_class === 'LoopAgent';
// ways returns the edges between the sub-agents of a workflow with their routes, or
// the back edge of a loop.
function ways(agent) {
  const all = below(agent);
  if (isLoop(agent) && all.length) return [{ from: all.length - 1, to: 0, label: agent.max_iterations ? `≤ ${agent.max_iterations}` : '' }];
  const found = new Map();
  for (const e of agent.graph?.edges ?? []) {
    const [from, to] = [e.from_node, e.to_node].map((n) => all.findIndex((c) => c.name === n.name));
    if (from < 0 || to < 0) continue;
    const way = found.get(`${from} ${to}`) ?? { from, to, label: '' };
    way.label = [way.label, e.route].filter(Boolean).join(', ');
    found.set(`${from} ${to}`, way);
  }
  return [...found.values()];
}

// An edge to the next agent is straight; other edges pass around the agents between.
const isStraight = (way) => way.to === way.from + 1 && !way.label;
const reach = (way) => 18 + 15 * Math.max(1, Math.abs(way.to - way.from));

// room returns the width of the edges to the right of the sub-agents.
function room({ agent, isIndented }) {
  const around = ways(agent).filter((w) => !isStraight(w)).map((w) => reach(w) * 0.75 + 8 + w.label.length * 6.5);
  return around.length ? (isIndented ? INDENT : WIDTH + GAP.x) + Math.max(...around) : 0;
}

const inOrder = (agent) => ['SequentialAgent', 'LoopAgent'].includes(agent.agent_class);

function heightOf(agent) {
  const tools = (agent.tools ?? []).length;
  return HEAD + Math.min(tools, MOST_TOOLS + 1) * LINE + (tools ? 5 : 0);
}

// placeIndented lists an agent above its sub-agents.
function placeIndented(agent, level, cursor) {
  const node = { agent, level, height: heightOf(agent), x: 1 + level * INDENT, y: cursor.y, isIndented: true };
  cursor.y += node.height + GAP.y;
  node.children = below(agent).map((child) => placeIndented(child, level + 1, cursor));
  return node;
}

// place puts each level into a column and centers an agent on its sub-agents.
function place(agent, level, cursor) {
  const height = heightOf(agent);
  const from = cursor.y;
  const node = { agent, level, height, x: 1 + level * (WIDTH + GAP.x), y: from };
  node.children = below(agent).map((child) => place(child, level + 1, cursor));
  if (node.children.length) {
    const [first, last] = [node.children[0], node.children.at(-1)];
    node.y = Math.max(from, (first.y + last.y + last.height - height) / 2);
  }
  cursor.y = Math.max(cursor.y, node.y + height + GAP.y);
  return node;
}

const flat = (node) => [node, ...node.children.flatMap(flat)];

function edges(node) {
  const { agent, children } = node;
  const all = [];
  const entered = agent.graph ? new Set(agent.graph.edges.filter((e) => e.from_node.type === 'start').map((e) => e.to_node.name)) : null;
  for (const [i, child] of children.entries()) {
    if (entered && !entered.has(child.agent.name)) continue;
    all.push(svg('path', { class: 'edge', d: node.isIndented ? elbow(node, child) : curve(node, child) }));
    if (i > 0 && inOrder(agent)) all.push(between(children[i - 1], child));
  }
  for (const way of ways(agent)) {
    const [from, to] = [children[way.from], children[way.to]];
    all.push(isStraight(way) ? between(from, to) : around(from, to, way));
  }
  return all;
}

function curve(node, child) {
  const [x1, y1, x2, y2] = [node.x + WIDTH, node.y + HEAD / 2, child.x, child.y + HEAD / 2];
  const mid = x1 + GAP.x / 2;
  return `M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2} ${y2}`;
}

const elbow = (node, child) => `M${node.x + 8} ${node.y + node.height}V${child.y + HEAD / 2}H${child.x}`;

// In a list, the sub-agents of a are between a and b: the line passes to their left.
function between(a, b) {
  const x = a.x + (a.isIndented && a.children.length ? 16 : 20);
  return svg('path', { class: 'flow', d: `M${x} ${a.y + a.height}V${b.y - 1}`, 'marker-end': 'url(#tip)' });
}

// around connects two agents of a column to their right.
function around(a, b, way) {
  const aside = a === b ? 8 : 4;
  const [x, y1, y2] = [a.x + WIDTH, a.y + HEAD / 2 + aside, b.y + HEAD / 2 - aside];
  const far = x + reach(way);
  return svg('g', {},
    svg('path', { class: 'flow', d: `M${x} ${y1}C${far} ${y1} ${far} ${y2} ${x + 2} ${y2}`, 'marker-end': 'url(#tip)' }),
    way.label && svg('text', { class: 'route', x: x + reach(way) * 0.75 + 4, y: (y1 + y2) / 2 + 4 }, way.label));
}

function box(node, { chosen, changed, active, choose, first }) {
  const { agent, x, y, height } = node;
  const here = chosen === agent.name;
  const isActive = active === agent.name;
  const pick = () => choose(agent.name);
  const tools = agent.tools ?? [];
  const shown = tools.length > MOST_TOOLS + 1 ? [...tools.slice(0, MOST_TOOLS).map((t) => t.name), `and ${tools.length - MOST_TOOLS} more`] : tools.map((t) => t.name);
  const lines = { name: cut(agent.name, isActive ? 15 : 23), kind: cut([kindOf(agent), agent.model].filter(Boolean).join(' · '), 27), tools: shown.map((name) => cut(name, 24)) };
  // The accessible name begins with the visible text, so that it can be spoken as it is read.
  const label = [[lines.name, isActive && 'active', lines.kind, ...lines.tools].filter(Boolean).join(' '), changed.has(agent.name) && 'changed', lines.name !== agent.name && escapeControls(agent.name)].filter(Boolean).join(', ');
  return svg('g', {
    class: 'node', transform: `translate(${x} ${y})`, role: 'treeitem', 'aria-level': node.level + 1, 'aria-selected': here, 'aria-label': label,
    tabindex: here || (!chosen && first) ? 0 : -1, 'data-agent': agent.name, 'data-kind': kindOf(agent), 'data-changed': changed.has(agent.name), 'data-active': isActive,
    onclick: pick, onkeydown: (e) => ['Enter', ' '].includes(e.key) && (e.preventDefault(), pick()),
  },
  svg('title', {}, [agent.name, agent.description, isActive && 'answered last'].filter(Boolean).map(escapeControls).join(': ')),
  svg('rect', { class: 'card', width: WIDTH, height, rx: 6 }),
  svg('rect', { class: 'stripe', width: 3, height: height - 12, x: 5, y: 6, rx: 1.5 }),
  svg('text', { class: 'name', x: 15, y: 18 }, lines.name), ' ',
  isActive && [svg('text', { class: 'now', x: WIDTH - 20, y: 18, 'text-anchor': 'end' }, 'active'), ' '],
  svg('text', { class: 'kind', x: 15, y: 34 }, lines.kind),
  tools.length && svg('path', { class: 'rule', d: `M15 ${HEAD - 1}H${WIDTH - 10}` }),
  lines.tools.map((name, i) => [' ', svg('text', { class: 'tool', x: 15, y: HEAD + 13 + i * LINE }, name)]),
  changed.has(agent.name) && svg('circle', { class: 'dot', cx: WIDTH - 11, cy: 12, r: 4 }));
}

const cut = (text, width) => escapeControls(text.length > width ? text.slice(0, width - 1) + '…' : text);

// walk moves the focus with the arrow keys.
function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const items = [...event.currentTarget.querySelectorAll('[role=treeitem]')];
  const at = items.indexOf(document.activeElement);
  const to = { Home: 0, End: items.length - 1 }[event.key] ?? (step && at + step);
  if (to === undefined || !items[to]) return;
  event.preventDefault();
  for (const item of items) item.setAttribute('tabindex', -1);
  items[to].setAttribute('tabindex', 0);
  items[to].focus();
}
