// The page for app authors, to keep open next to the editor: the apps and their
// problems, the agents of the selected app, and a chat with it.

import { el, byId } from './dom.js';
import { fetchOK, get, followChanges, hasToken, keepToken, path, REFUSED } from './wire.js';
import { drawApps, drawHead, drawMissing, drawSignIn, drawChanges, headline } from './apps.js';
import { drawProblems } from './problems.js';
import { drawTree, lightUp, find } from './tree.js';
import { drawAgent } from './agent.js';
import { Chat } from './chat.js';
import { EvalView } from './evals.js';
import { ViewPane, addButtons, isView } from './views.js';
import { openKeys } from './keys.js';
import { usesKeys } from './memory.js';

const MAX_REPORTS = 64;

const view = { apps: null, folders: [], reports: [], chosen: '', seen: new Set(), info: null, agent: '', active: '', changed: new Set() };
const evals = new EvalView(byId('evals'), toAddress);
const pane = new ViewPane(byId('view'));
const chat = new Chat({
  lightUp: (name) => lightUp(byId('agents'), name), onActive: setActive, onSession: toAddress, onChoice: () => { closeSide(); showPane('talk'); },
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
  if (reports.length) pane.refresh();
}

const chosenApp = () => view.apps?.find((a) => a.app === view.chosen);

function drawFiles() {
  const app = chosenApp();
  drawApps(byId('apps'), view.apps, view.chosen, pick);
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

// pick chooses an app in the list.
function pick(name) {
  closeSide();
  choose(name);
}

function choose(name, session = '') {
  const address = fromAddress();
  const id = name === address.app && !session ? address.id : session;
  Object.assign(view, { chosen: name, info: null, agent: '', changed: new Set() });
  evals.open(name);
  showPaneView();
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
  drawTree(byId('agents'), view.info?.root_agent, { chosen: view.agent, changed: view.changed, active: view.active, choose: chooseAgent });
}

// setActive marks the agent that answered last.
function setActive(name) {
  if (view.active === name) return;
  view.active = name;
  drawTreeOnly();
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
  return { app, id, shown: shown === 'evals' || isView(shown) ? shown : 'agents', opened };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function toAddress() {
  const shown = document.body.dataset.view;
  const isOther = shown !== 'agents' && view.chosen;
  const address = `#${path(...isOther ? [view.chosen, chat.session, shown, ...shown === 'evals' ? evals.address : []] : [view.chosen, chat.session].filter(Boolean))}`;
  if (address !== location.hash) history.replaceState(null, '', address);
}

function openAddress() {
  const { app, id, shown, opened } = fromAddress();
  const name = app || (view.apps?.[0]?.app ?? '');
  evals.restore(name, opened);
  showView(shown);
  if (name !== view.chosen || id !== chat.session) choose(name, id);
}

window.addEventListener('hashchange', () => {
  if (!view.apps) return;
  if (fromAddress().id && document.body.dataset.side === 'open') showPane('talk');
  closeSide();
  openAddress();
});

// Keys.

document.addEventListener('keydown', (event) => {
  const isWriting = event.target.closest('input, textarea, select');
  if (document.querySelector('dialog[open]')) return;
  const act = event.altKey && !event.ctrlKey && !event.metaKey ? alternates[event.code] : isWriting || event.ctrlKey || event.metaKey || !usesKeys() ? null : singles[event.key];
  if (act) {
    event.preventDefault();
    act();
  } else if (event.key === 'Escape') stopOrClose(isWriting);
});

const singles = { '/': writeMessage, '?': openKeys };
const alternates = {
  KeyN: () => chat.startSession(),
  KeyS: () => {
    openSide();
    byId('sessions').querySelector('input').focus();
  },
  KeyA: () => {
    const at = view.apps?.findIndex((a) => a.app === view.chosen) ?? -1;
    if (view.apps?.length) pick(view.apps[(at + 1) % view.apps.length].app);
  },
};

function writeMessage() {
  switchView('agents');
  showPane('talk');
  byId('message').focus();
}

function stopOrClose(isWriting) {
  if (document.body.dataset.side === 'open') closeSide(true);
  else if (chat.talk.running) chat.stop();
  else if (chat.live.isActive) chat.live.stopAnswer();
  else if (view.agent && !isWriting) chooseAgent('');
}

byId('help').addEventListener('click', openKeys);

// Apps and sessions are in a drawer on narrow screens.
function openSide() {
  document.body.dataset.side = 'open';
  byId('menu').setAttribute('aria-expanded', true);
}

function closeSide(returnsFocus = false) {
  if (document.body.dataset.side !== 'open') return;
  delete document.body.dataset.side;
  byId('menu').setAttribute('aria-expanded', false);
  if (returnsFocus) byId('menu').focus();
}

byId('menu').addEventListener('click', () => {
  if (document.body.dataset.side === 'open') return closeSide();
  openSide();
  byId('side').querySelector('[aria-current]')?.focus();
});
document.addEventListener('pointerdown', ({ target }) => { if (!byId('side').contains(target) && !byId('menu').contains(target)) closeSide(); });

// A narrow screen shows one pane at a time.
function showPane(pane) {
  document.body.dataset.pane = pane;
  for (const button of byId('panes').children) button.setAttribute('aria-pressed', button.dataset.pane === pane);
}

byId('panes').addEventListener('click', (event) => event.target.dataset.pane && showPane(event.target.dataset.pane));

// The agents and the chat, the evaluations, or one of the other views.
addButtons(byId('views'));

function showView(shown) {
  if (document.body.dataset.view === shown) return;
  document.body.dataset.view = shown;
  for (const button of byId('views').children) button.setAttribute('aria-pressed', button.dataset.view === shown);
  evals.show(shown === 'evals');
  showPaneView();
}

function showPaneView() {
  const { view: shown } = document.body.dataset;
  pane.show(isView(shown) ? shown : '', view.chosen);
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
  if (needsToken) askToSignIn(refused.status);
});

window.addEventListener(REFUSED, ({ detail }) => askToSignIn(detail.status));

function askToSignIn(status) {
  chat.setBlocked('Sign in to send messages.');
  if (!byId('head').querySelector('form')) drawSignIn(byId('head'), { status, hasToken: hasToken(), enter: signIn });
}

function signIn(token) {
  keepToken(token);
  location.reload();
}

