// The Evaluations view: the eval sets of an app, runs, results and comparisons.

import { el, byId, count } from './dom.js';
import { get, path } from './wire.js';
import { EvalRun, filePath } from './eval_run.js';
import { drawSet, drawProgress } from './eval_set.js';
import { drawMatrix, drawComparison, versionOf } from './eval_matrix.js';
import { drawCase, drawCaseHead } from './eval_case.js';
import { PASSED, formatTime, percent } from './eval_score.js';

const MAX_LISTED = 50;
const MAX_COMPARED = 6;
const MAX_KEPT = 20;

/** An EvalView is the Evaluations view of the selected app. */
export class EvalView {
  /** onOpen() is called when something is opened: a set, a result or a case. */
  constructor(section, onOpen) {
    this.lists = el('div', { class: 'lists' });
    this.main = el('div', { class: 'detail', tabindex: '-1' });
    section.append(this.lists, this.main);
    // runs maps apps to their run: it continues while another app is shown.
    Object.assign(this, { onOpen, app: '', isShown: false, runs: new Map(), results: new Map(), wanted: null });
    this.reset();
    this.main.addEventListener('input', () => { this.isEdited = true; });
    window.addEventListener('focus', () => this.isShown && this.refresh());
  }

  reset() {
    Object.assign(this, { overview: null, infos: [], at: { kind: 'none' }, compared: new Set(), isLong: false });
  }

  /** open switches to an app. */
  open(app) {
    if (app === this.app) return;
    this.app = app;
    this.reset();
    this.results.clear();
    this.lists.replaceChildren();
    this.main.replaceChildren();
    if (this.isShown) this.load();
  }

  /** address returns what is open, as parts of a URL. */
  get address() {
    const { kind, file, id, index } = this.at;
    if (kind === 'set') return ['set', file];
    return kind === 'result' ? ['result', id] : kind === 'case' ? ['result', id, String(index)] : [];
  }

  /** restore opens what an address names, when the lists of the app are loaded. */
  restore(app, address) {
    this.wanted = address.length ? { app, address } : null;
    if (this.overview && app === this.app && address.join() !== this.address.join()) this.openWanted();
  }

  // openWanted reports whether there was something to open.
  async openWanted() {
    const { app, address: [kind, id, index] } = this.wanted ?? { address: [] };
    const set = kind === 'set' && this.overview.sets.find((s) => s.file === id);
    this.wanted = null;
    if (app !== this.app || !(set || kind === 'result')) return false;
    if (set) await this.openSet(set);
    else if (index === undefined) await this.openResult(id);
    else {
      try {
        await this.openCase(await this.loadResult(id), Number(index));
      } catch (error) {
        this.fail(error);
      }
    }
    return true;
  }

  /** show loads the lists when the view becomes visible. */
  show(isShown) {
    this.isShown = isShown;
    if (isShown) this.load();
  }

  /** load fetches the lists, and opens the first set or the given one. */
  async load(file = '') {
    const { app } = this;
    if (!app) return;
    try {
      const [overview, { metricsInfo }] = await Promise.all([get(path('-', 'evals', app)), get(path('dev', 'apps', app, 'metrics-info'))]);
      if (app !== this.app) return;
      Object.assign(this, { overview, infos: metricsInfo });
    } catch (error) {
      if (app === this.app) this.fail(error);
      return;
    }
    this.drawLists();
    if (!file && await this.openWanted()) return;
    const set = this.overview.sets.find((s) => s.file === file) ?? (this.at.kind === 'none' && (this.runs.get(app)?.set ?? this.overview.sets.find((s) => !s.problem)));
    if (set) await this.openSet(set);
    else if (this.at.kind === 'none') this.drawEmpty();
  }

  // refresh shows what changed in the files meanwhile, and keeps an edited form.
  async refresh() {
    const { at } = this;
    await this.load();
    const set = at === this.at && at.kind === 'set' && !this.isEdited && !this.runs.has(this.app) && this.overview?.sets.find((s) => s.file === at.file);
    if (set) await this.openSet(set);
  }

  fail(error) {
    this.main.replaceChildren(el('p', { class: 'bad', role: 'alert' }, error.message));
  }

  drawEmpty() {
    this.main.replaceChildren(el('h2', {}, 'No eval sets yet'),
      el('p', {}, 'An eval set is a file ', el('code', {}, 'NAME.eval.yaml'), ' or ', el('code', {}, 'NAME.evalset.json'), ' in the folder of the app: conversations with the answers and tool calls that you expect.'),
      el('p', {}, 'Chat with the app, then select “Save as case”: the conversation becomes a case.'));
  }

  // The lists of sets and results.

  drawLists() {
    const { overview } = this;
    const focused = document.activeElement?.closest?.('.lists [data-key]')?.dataset.key;
    this.lists.replaceChildren(
      overview.locked ? el('p', { class: 'locked', role: 'note' }, overview.locked) : '',
      el('h2', {}, 'Eval sets'),
      overview.sets.length ? el('ul', {}, overview.sets.map((s) => this.drawSetEntry(s))) : el('p', { class: 'dim' }, 'None.'),
      el('h2', {}, 'Results', this.compareButton()),
      overview.results.length ? el('ul', { class: 'results' }, this.listed().map((r) => this.drawResultEntry(r))) : el('p', { class: 'dim' }, 'None yet: run a set.'),
      this.moreButton());
    if (focused) this.lists.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  listed() {
    return this.isLong ? this.overview.results : this.overview.results.slice(0, MAX_LISTED);
  }

  moreButton() {
    const { results, olderResults = 0 } = this.overview;
    if (!this.isLong && results.length > MAX_LISTED) return el('button', { type: 'button', class: 'quiet', onclick: () => (this.isLong = true, this.drawLists()) }, `Show ${results.length - MAX_LISTED} more`);
    return olderResults ? el('p', { class: 'dim' }, `${count(olderResults, 'older result')} in .adk/eval_history`) : '';
  }

  drawSetEntry(s) {
    const run = this.runs.get(this.app);
    const isRunning = run?.isRunning && run.set.file === s.file;
    return el('li', {}, el('button', { type: 'button', class: 'entry', 'data-key': `set ${s.file}`, 'aria-current': this.at.kind === 'set' && this.at.file === s.file ? 'true' : null, onclick: () => this.openSet(s) },
      el('span', { class: 'name' }, s.file),
      el('span', { class: s.problem ? 'bad' : 'dim' }, s.problem ? 'has errors' : isRunning ? `running ${run.cases.length}/${run.total}` : s.cases === undefined ? '' : count(s.cases, 'case'))));
  }

  drawResultEntry(r) {
    const known = this.results.get(r.id);
    const box = el('input', { type: 'checkbox', 'data-key': `compare ${r.id}`, 'aria-label': `Compare ${r.id}`, title: 'Select for comparison', onchange: () => this.toggleCompared(r.id, box.checked) });
    box.checked = this.compared.has(r.id);
    box.disabled = !box.checked && this.compared.size >= MAX_COMPARED;
    return el('li', {}, box, el('button', { type: 'button', class: 'entry', 'data-key': `result ${r.id}`, 'aria-current': ['result', 'case'].includes(this.at.kind) && this.at.id === r.id ? 'true' : null, title: r.id, onclick: () => this.openResult(r.id) },
      el('span', { class: 'name' }, r.setId || r.id), el('span', { class: 'dim' }, [formatTime(r.time), known && shareOf(known)].filter(Boolean).join(' · '))));
  }

  compareButton() {
    const n = this.compared.size;
    return el('button', { type: 'button', class: 'quiet', disabled: n < 2, title: 'Select two or more results', onclick: () => this.openComparison() }, n > 1 ? `Compare ${n}` : 'Compare');
  }

  toggleCompared(id, isChosen) {
    if (isChosen) this.compared.add(id);
    else this.compared.delete(id);
    this.drawLists();
  }

  // The main part: a set, a result, a case of a result, or a comparison.

  // navigate shows something new unless it was replaced before it was loaded.
  async navigate(at, load) {
    this.at = at;
    this.isEdited = false;
    this.onOpen();
    this.drawLists();
    this.main.setAttribute('aria-busy', 'true');
    let nodes;
    try {
      nodes = await load();
    } catch (error) {
      nodes = [el('p', { class: 'bad problem', role: 'alert' }, error.message)];
    }
    if (at !== this.at) return;
    this.main.removeAttribute('aria-busy');
    this.main.replaceChildren(...nodes);
    this.drawLists();
    this.showMain(at);
  }

  // showMain scrolls to what was opened, and moves the focus there if it was removed.
  showMain(at) {
    if (at.kind !== 'set') scrollTo(this.main);
    if (document.activeElement === document.body && at.kind !== 'set') this.main.focus({ preventScroll: true });
  }

  openSet(set) {
    const { app } = this;
    const at = { kind: 'set', file: set.file };
    return this.navigate(at, async () => {
      const head = el('h2', {}, set.file);
      if (set.problem) return [head, el('pre', { class: 'bad problem' }, set.problem)];
      const view = await get(`${path('-', 'evals', app, 'sets')}/${filePath(set.file)}`);
      this.progress = el('div');
      this.drawRun();
      return [head, this.progress, drawSet(view, { locked: this.overview.locked, infos: this.infos, run: (chosen) => this.startRun(view, chosen) })];
    });
  }

  openResult(id) {
    return this.navigate({ kind: 'result', id }, async () => {
      const result = await this.loadResult(id);
      return [el('h2', {}, result.setId || id, el('span', { class: 'dim' }, ` ${[formatTime(result.time), versionOf(result)].filter(Boolean).join(' · ')}`)),
        drawMatrix(result.cases, (index) => this.openCase(result, index))];
    });
  }

  openCase(result, index, back = () => this.openResult(result.id)) {
    const { app } = this;
    return this.navigate({ kind: 'case', id: result.id, index }, async () => {
      const c = await get(`${path('-', 'evals', app, 'results', result.id, 'cases')}/${index}`);
      const step = (to, text) => el('button', { type: 'button', class: 'quiet', disabled: to < 0 || to >= result.cases.length, onclick: () => this.openCase(result, to, back) }, text);
      return [el('div', { class: 'bar crumbs' }, el('button', { type: 'button', class: 'quiet', onclick: back }, '← Back'), el('span', { class: 'dim' }, [result.setId, formatTime(result.time)].filter(Boolean).join(' · ')), step(index - 1, 'Previous'), step(index + 1, 'Next')),
        el('h2', { class: 'casehead' }, drawCaseHead(c)), drawCase(c)];
    });
  }

  openComparison() {
    const ids = [...this.compared];
    const back = () => this.openComparison();
    return this.navigate({ kind: 'comparison' }, async () => {
      const results = [];
      for (const id of ids) results.push(await this.loadResult(id));
      results.sort((a, b) => a.time - b.time);
      return [el('h2', {}, `Comparison of ${count(results.length, 'result')}`), drawComparison(results, (result, index) => this.openCase(result, index, back))];
    });
  }

  // loadResult fetches the scores of a result; recent ones are kept.
  async loadResult(id) {
    const { app } = this;
    const known = this.results.get(id);
    if (known) return known;
    const result = await get(path('-', 'evals', app, 'results', id));
    const listed = this.overview.results.find((r) => r.id === id);
    Object.assign(result, { id, setId: result.setId || listed?.setId || '', time: result.time || listed?.time || 0 });
    if (app !== this.app) return result;
    this.results.set(id, result);
    if (this.results.size > MAX_KEPT) this.results.delete(this.results.keys().next().value);
    return result;
  }

  // Runs.

  startRun(set, chosen) {
    const other = this.runs.get(this.app);
    if (other?.isRunning) throw new Error(`A run of ${other.set.file} is in progress: wait until it has ended, or cancel it.`);
    this.run(set, chosen);
    scrollTo(this.progress);
  }

  async run(set, chosen) {
    const { app } = this;
    const run = new EvalRun(app, set, () => this.onRun(run));
    this.runs.set(app, run);
    await run.start(chosen);
    if (app !== this.app || !run.isDone) return;
    byId('announcement').textContent = `Evaluation done: ${run.cases.filter((c) => c.status === PASSED).length} of ${count(run.cases.length, 'case')} passed`;
    const isWatching = this.isShown && this.at.kind === 'set' && this.at.file === set.file;
    this.runs.delete(app);
    await this.load();
    if (isWatching && run.resultId) await this.openResult(run.resultId);
  }

  onRun(run) {
    if (run.app !== this.app || this.isDrawing) return;
    this.isDrawing = true; // results may arrive faster than they can be drawn
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (this.overview) this.drawLists();
      this.drawRun();
    });
  }

  drawRun() {
    const run = this.runs.get(this.app);
    const isHere = run && this.at.kind === 'set' && this.at.file === run.set.file;
    const hadFocus = this.progress?.contains(document.activeElement);
    this.progress?.replaceChildren(...(isHere ? [drawProgress(run, { close: () => (this.runs.delete(this.app), this.drawRun()) })] : []));
    if (hadFocus) this.progress.querySelector('.bar button')?.focus();
  }
}

// scrollTo scrolls the pane, and only the pane, unless the node begins in its upper half.
function scrollTo(node) {
  const pane = node.closest('main');
  const offset = node.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  if (offset < 0 || offset > pane.clientHeight / 2) pane.scrollTop += offset - 8;
}

function shareOf(result) {
  return percent(result.cases.filter((c) => c.status === PASSED).length, result.cases.length);
}
