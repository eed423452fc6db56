// The page that who writes an app keeps open beside its files: how the apps are,
// what they are made of, and a conversation with one of them.

import { el, byId, when } from './dom.js';
import { ask, get, follow, keepToken, path } from './wire.js';
import { drawApps, drawDoor, drawHead, drawProblems, drawChanges, headline } from './apps.js';
import { drawTree, lightUp, find } from './tree.js';
import { drawAgent } from './agent.js';
import { Sight, drawState } from './state.js';
import { Transcript } from './events.js';
import { Conversation } from './conversation.js';

const MOST_REPORTS = 64;

const view = { apps: [], reports: [], chosen: '', info: null, agent: '', changed: new Set() };
const sight = new Sight();
const talk = new Conversation({ onEvent, onRun, onSessions: drawSession });
const transcript = new Transcript(byId('events'), { answer, request, artifact });

// The apps and their files.

function onFrame(frame, first) {
  byId('version').textContent = frame.version;
  byId('devui').hidden = !frame.devUI;
  view.apps = frame.apps;
  view.reports = [...(first ? [] : view.reports), ...frame.reports].slice(-MOST_REPORTS);
  if (!here()) choose((view.apps.find((a) => a.app === fromAddress().app) ?? view.apps[0])?.app ?? '');
  else if (!first) onReports(frame.reports.filter((r) => r.app === view.chosen));
  else loadInfo();
  drawFiles();
}

function onReports(reports) {
  for (const r of reports) {
    if (r.what === 'loaded') view.changed = new Set((r.changes ?? []).map((c) => c.where.replace(/^agent /, '')));
    if (byId('events').querySelector('.turn')) transcript.say(headline(r), `notice ${r.what}`);
    byId('said').textContent = `${r.app} ${headline(r)}`;
  }
  if (reports.some((r) => r.what === 'loaded')) loadInfo();
}

const here = () => view.apps.find((a) => a.app === view.chosen);

function drawFiles() {
  const app = here();
  drawApps(byId('apps'), view.apps, view.chosen, choose);
  drawHead(byId('head'), app, view.info?.root_agent, () => ask('POST', '-/reload').catch(() => {}));
  drawProblems(byId('problems'), app);
  drawChanges(byId('changes'), view.reports.filter((r) => r.app === view.chosen));
  byId('changes').hidden = byId('state').hidden = !app;
  byId('talk').classList.toggle('idle', !app?.revision);
  const worst = view.apps.some((a) => !a.ok && !a.waiting);
  document.title = `${worst ? '▲ ' : ''}${view.chosen || 'agenthost'}${view.chosen ? ' · agenthost' : ''}`;
}

function choose(name, session = '') {
  const { app, id } = fromAddress();
  if (name === app && !session) session = id;
  Object.assign(view, { chosen: name, info: null, agent: '', changed: new Set() });
  talk.choose(name);
  drawFiles();
  drawAgents();
  openSession(session);
  loadInfo();
  if (name) talk.list().catch(() => {});
}

async function loadInfo() {
  const name = view.chosen;
  const info = here()?.revision ? await get(path('dev', 'apps', name, 'build_graph')).catch(() => null) : null;
  if (name !== view.chosen) return;
  view.info = info;
  drawAgents();
  drawHead(byId('head'), here(), info?.root_agent, () => ask('POST', '-/reload').catch(() => {}));
}

function drawAgents() {
  const root = view.info?.root_agent;
  drawTree(byId('agents'), root, { chosen: view.agent, changed: view.changed, choose: chooseAgent });
  drawAgent(byId('agent'), view.agent && root && find(root, view.agent), { preview, close: () => chooseAgent('') });
}

function chooseAgent(name) {
  view.agent = name === view.agent ? '' : name;
  drawAgents();
}

async function preview() {
  const body = { agent: view.agent, userId: talk.user, sessionId: talk.id, text: byId('message').value };
  return (await ask('POST', path('apps', view.chosen, 'preview'), body)).json();
}

// The conversation.

async function openSession(id) {
  talk.id = id;
  transcript.clear(!id && view.chosen && `Say something to ${view.chosen}. A saved file is what the next answer is made with.`);
  sight.clear();
  drawState(byId('state'), sight);
  drawSession();
  toAddress();
  if (!id) return;
  try {
    const session = await talk.open(id);
    if (session.id !== talk.id) return;
    transcript.show(session.events);
    sight.set(session.state);
  } catch (error) {
    talk.id = '';
    transcript.say(error.message, 'bad');
  }
  drawState(byId('state'), sight);
}

function drawSession() {
  const label = (s) => `${when(s.lastUpdateTime * 1000)} · ${s.id.slice(0, 12)}`;
  const known = talk.sessions.some((s) => s.id === talk.id);
  const choice = el('select', { 'aria-label': 'Session', onchange: (e) => openSession(e.target.value) },
    el('option', { value: '' }, 'a new session'),
    talk.id && !known && el('option', { value: talk.id }, talk.id.slice(0, 12)),
    talk.sessions.map((s) => el('option', { value: s.id }, label(s))));
  choice.value = talk.id;
  const user = el('input', { 'aria-label': 'User', value: talk.user, title: 'the user who speaks', spellcheck: 'false', autocomplete: 'off', onchange: (e) => { talk.user = e.target.value.trim() || 'user'; choose(view.chosen); } });
  const focused = ['User', 'Session'].find((label) => document.activeElement?.getAttribute('aria-label') === label);
  byId('session').replaceChildren(user, choice,
    el('button', { type: 'button', class: 'quiet', disabled: !talk.id, onclick: () => { openSession(''); byId('message').focus(); } }, 'New'),
    el('button', { type: 'button', class: 'quiet', disabled: !talk.id, onclick: () => talk.remove().then(() => openSession(''), (e) => transcript.say(e.message, 'bad')) }, 'Delete'));
  if (focused) byId('session').querySelector(`[aria-label=${focused}]`).focus();
}

function onEvent(event) {
  transcript.add(event);
  if (event.partial) {
    lightUp(byId('agents'), event.author);
    return;
  }
  sight.apply(event.actions?.stateDelta);
  drawState(byId('state'), sight);
  lightUp(byId('agents'), event.actions?.transferToAgent ?? event.author);
  const text = event.author !== 'user' && (event.content?.parts ?? []).map((p) => (p.thought ? '' : p.text ?? '')).join('');
  if (text) byId('said').textContent = `${event.author}: ${text}`;
}

function onRun(running) {
  byId('send').textContent = running ? 'Stop' : 'Send';
  byId('events').setAttribute('aria-busy', running);
  if (!running) lightUp(byId('agents'), '');
}

async function send(content, more) {
  const before = talk.id;
  sight.begin();
  transcript.add({ id: `mine-${performance.now()}`, author: 'user', content });
  transcript.toEnd();
  const failed = await talk.run(content, { streaming: byId('streaming').checked, ...more });
  if (failed) transcript.say(failed, failed === 'stopped' ? 'notice' : 'bad');
  if (talk.id !== before) toAddress();
  if (!talk.id) return;
  sight.set(await talk.state().catch(() => sight.values));
  drawState(byId('state'), sight);
}

async function answer(event, call, response) {
  if (talk.running) throw new Error('Wait until the run has ended.');
  const parts = [{ functionResponse: { id: call.id, name: call.name, response } }];
  const resume = view.info?.resumability_config?.is_resumable ? { invocationId: event.invocationId } : {};
  await send({ role: 'user', parts }, resume);
}

async function request(event) {
  const trace = await get(path('dev', 'apps', view.chosen, 'debug', 'trace', event.id)).catch((error) => {
    throw error.status === 404 ? new Error('The host remembers the latest requests only, and this one no more.') : error;
  });
  const asked = trace['gcp.vertex.agent.llm_request'];
  if (!asked) throw new Error('Requests are kept where the host serves with --dev.');
  return JSON.parse(asked);
}

function artifact(name, version) {
  return get(`${talk.address}/${path(talk.id, 'artifacts', ...name.split('/'), 'versions')}/${version}`);
}

// The address names the app and the session, so that the page can be reloaded.

function fromAddress() {
  const [app = '', id = ''] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  return { app, id };
}

function toAddress() {
  const address = `#${path(...[view.chosen, talk.id].filter(Boolean))}`;
  if (address !== location.hash) history.replaceState(null, '', address);
}

// Hands on the page.

const message = byId('message');

byId('say').addEventListener('submit', (event) => {
  event.preventDefault();
  if (talk.running) {
    talk.stop();
    return;
  }
  const text = message.value;
  if (!text.trim() || !here()?.revision) return;
  message.value = '';
  send({ role: 'user', parts: [{ text }] });
});

message.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!talk.running) byId('say').requestSubmit();
});

document.addEventListener('keydown', (event) => {
  const writing = event.target.closest('input, textarea, select');
  if (event.key === 'Escape' && talk.running) talk.stop();
  else if (event.key === 'Escape' && view.agent && !writing) chooseAgent('');
  else if (event.key === '/' && !writing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    show('talk');
    message.focus();
  }
});

// On a narrow screen one half is shown at a time.
function show(pane) {
  document.body.dataset.pane = pane;
  for (const button of byId('panes').children) button.setAttribute('aria-pressed', button.dataset.pane === pane);
}

byId('panes').addEventListener('click', (event) => event.target.dataset.pane && show(event.target.dataset.pane));
window.addEventListener('hashchange', () => {
  const { app, id } = fromAddress();
  if (app !== view.chosen || id !== talk.id) choose(app, id);
});

follow(onFrame, (live, refused) => {
  const asks = refused?.status === 401 || refused?.status === 403;
  byId('link').dataset.live = live ? 'yes' : 'no';
  byId('link').textContent = live ? 'live' : asks ? 'the host asks who you are' : refused?.message ?? 'the host is away';
  byId('link').title = byId('link').textContent;
  if (asks && !byId('head').querySelector('form')) drawDoor(byId('head'), refused.status, (token) => (keepToken(token), location.reload()));
});
