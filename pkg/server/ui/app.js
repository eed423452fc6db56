// The page for app authors, to keep open next to the editor: the apps and their
// problems, the agents of the selected app, and a chat with it.

import { el, byId } from './dom.js';
import { fetchOK, get, followChanges, hasToken, keepToken, path } from './wire.js';
import { drawApps, drawHead, drawMissing, drawSignIn, drawChanges, headline } from './apps.js';
import { drawProblems } from './problems.js';
import { drawTree, lightUp, find } from './tree.js';
import { drawAgent } from './agent.js';
import { Chat } from './chat.js';
import { EvalView } from './evals.js';

const MAX_REPORTS = 64;

const view = { apps: null, folders: [], reports: [], chosen: '', seen: new Set(), info: null, agent: '', changed: new Set() };
const evals = new EvalView(byId('evals'), toAddress);
const chat = new Chat({
  lightUp: (name) => lightUp(byId('agents'), name), onSession: toAddress,
  onCase: (file) => { switchView('evals'); evals.load(file); },
  isResumable: () => !!view.info?.resumability_config?.is_resumable,
});

// The apps and their files.

function onFrame(frame, isFirst) {
  byId('version').textContent = frame.version;
  byId('devui').hidden = !frame.devUI;
  view.apps = frame.apps;
  view.folders = frame.folders ?? [];
  view.reports = [...(isFirst ? [] : view.reports), ...frame.reports].slice(-MAX_REPORTS);
  for (const app of frame.apps) view.seen.add(app.app);
  // If the selected app is removed, stay on it: only the user selects another one.
  if (!view.chosen) openAddress();
  else if (isFirst || !chosenApp() || !view.info) loadInfo();
  if (isFirst) chat.sync();
  if (!isFirst) onReports(frame.reports.filter((r) => r.app === view.chosen));
  drawFiles();
}

function onReports(reports) {
  for (const r of reports) {
    if (r.what === 'loaded') view.changed = new Set((r.changes ?? []).map((c) => c.where.replace(/^agent /, '')));
    chat.notify(headline(r), `notice ${r.what}`);
    byId('announcement').textContent = `${r.app}: ${headline(r)}`;
  }
  if (reports.some((r) => r.what === 'loaded')) loadInfo();
}

const chosenApp = () => view.apps?.find((a) => a.app === view.chosen);

function drawFiles() {
  const app = chosenApp();
  drawApps(byId('apps'), view.apps, view.chosen, choose);
  drawTop();
  drawProblems(byId('problems'), app, view.folders);
  drawChanges(byId('changes'), view.reports.filter((r) => r.app === view.chosen));
  byId('changes').hidden = byId('state').hidden = byId('views').hidden = !view.chosen;
  chat.setBlocked(reasonToWait(app));
  const isBroken = view.folders.length > 0 || view.apps.some((a) => !a.ok && !a.waiting);
  document.title = `${isBroken ? '▲ ' : ''}${view.chosen || 'agenthost'}${view.chosen ? ' · agenthost' : ''}`;
}

function drawTop() {
  const app = chosenApp();
  if (!view.apps) return;
  if (view.chosen && !app) drawMissing(byId('head'), view.chosen, { isGone: view.seen.has(view.chosen), apps: view.apps, choose });
  else drawHead(byId('head'), app, view.info?.root_agent, () => fetchOK('POST', '-/reload').catch((error) => chat.notify(error.message, 'bad')));
}

// reasonToWait returns why messages cannot be sent to the selected app.
function reasonToWait(app) {
  if (!view.chosen) return 'No app to talk to.';
  if (!app) return view.seen.has(view.chosen) ? `App ${view.chosen} is gone: messages cannot be sent.` : `No app named ${view.chosen}: messages cannot be sent.`;
  return app.revision ? '' : `App ${view.chosen} is not running: fix its errors first.`;
}

function choose(name, session = '') {
  const address = fromAddress();
  const id = name === address.app && !session ? address.id : session;
  Object.assign(view, { chosen: name, info: null, agent: '', changed: new Set() });
  evals.open(name);
  chat.open(name, id);
  drawFiles();
  drawAgents();
  loadInfo();
}

async function loadInfo() {
  const name = view.chosen;
  const info = chosenApp()?.revision ? await get(path('dev', 'apps', name, 'build_graph')).catch(() => null) : null;
  if (name !== view.chosen) return;
  view.info = info;
  drawAgents();
  drawTop();
}

function drawAgents() {
  const root = view.info?.root_agent;
  drawTreeOnly();
  drawAgent(byId('agent'), view.agent && root && find(root, view.agent), { preview: () => chat.preview(view.agent), close: () => chooseAgent('') });
}

function drawTreeOnly() {
  drawTree(byId('agents'), view.info?.root_agent, { chosen: view.agent, changed: view.changed, choose: chooseAgent });
}

function chooseAgent(name) {
  view.agent = name === view.agent ? '' : name;
  drawAgents();
}

// The layout of the tree depends on the width.
let treeWidth = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === treeWidth) return;
  treeWidth = contentRect.width;
  drawTreeOnly();
}).observe(byId('app'));

// The URL hash names the app and the session, so that the page can be reloaded.

function fromAddress() {
  const [app = '', id = '', shown = '', ...opened] = location.hash.replace(/^#\/?/, '').split('/').map(decode);
  return { app, id, shown: shown === 'evals' ? 'evals' : 'agents', opened };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function toAddress() {
  const isEvals = document.body.dataset.view === 'evals' && view.chosen;
  const address = `#${path(...isEvals ? [view.chosen, chat.session, 'evals', ...evals.address] : [view.chosen, chat.session].filter(Boolean))}`;
  if (address !== location.hash) history.replaceState(null, '', address);
}

function openAddress() {
  const { app, id, shown, opened } = fromAddress();
  const name = app || (view.apps?.[0]?.app ?? '');
  evals.restore(name, opened);
  showView(shown);
  if (name !== view.chosen || id !== chat.session) choose(name, id);
}

window.addEventListener('hashchange', () => view.apps && openAddress());

// Keys.

document.addEventListener('keydown', (event) => {
  const isWriting = event.target.closest('input, textarea, select');
  if (document.querySelector('dialog[open]')) return;
  if (event.key === 'Escape' && chat.talk.running) chat.stop();
  else if (event.key === 'Escape' && chat.live.isActive) chat.live.stopAnswer();
  else if (event.key === 'Escape' && view.agent && !isWriting) chooseAgent('');
  else if (event.key === '/' && !isWriting && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    switchView('agents');
    showPane('talk');
    byId('message').focus();
  }
});

// A narrow screen shows one pane at a time.
function showPane(pane) {
  document.body.dataset.pane = pane;
  for (const button of byId('panes').children) button.setAttribute('aria-pressed', button.dataset.pane === pane);
}

byId('panes').addEventListener('click', (event) => event.target.dataset.pane && showPane(event.target.dataset.pane));

// The agents and the chat, or the evaluations.
function showView(shown) {
  if (document.body.dataset.view === shown) return;
  document.body.dataset.view = shown;
  for (const button of byId('views').children) button.setAttribute('aria-pressed', button.dataset.view === shown);
  evals.show(shown === 'evals');
}

function switchView(shown) {
  showView(shown);
  toAddress();
}

byId('views').addEventListener('click', (event) => event.target.dataset.view && switchView(event.target.dataset.view));

// The connection.

followChanges(onFrame, (isLive, refused) => {
  const needsToken = refused?.status === 401 || refused?.status === 403;
  const text = isLive ? 'Connected' : needsToken ? 'Sign-in required' : refused?.message ?? 'Server not reachable, retrying…';
  byId('link').dataset.live = isLive ? 'yes' : 'no';
  byId('link').textContent = byId('link').title = text;
  if (needsToken) chat.setBlocked('Sign in to send messages.');
  if (needsToken && !byId('head').querySelector('form')) drawSignIn(byId('head'), { status: refused.status, hasToken: hasToken(), enter: signIn });
});

function signIn(token) {
  keepToken(token);
  location.reload();
}

