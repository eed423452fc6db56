// A run of an eval set: its cases as they end.

import { fetchOK, frames, HTTPError, path } from './wire.js';

/** An EvalRun runs cases of a set and keeps their scores. */
export class EvalRun {
  /** onChange() is called after each change. */
  constructor(app, set, onChange) {
    Object.assign(this, { app, set, onChange, cases: [], total: 0, resultId: '', error: '', isRunning: false, isCanceled: false });
  }

  /** start runs the cases and resolves when the run has ended. */
  async start({ caseIds, metrics }) {
    this.end = new AbortController();
    this.total = caseIds.length || this.set.caseList.length;
    this.isRunning = true;
    this.onChange();
    try {
      await this.read(await fetchOK('POST', `${path('-', 'evals', this.app, 'sets')}/${filePath(this.set.file)}`, { evalCaseIds: caseIds, evalMetrics: metrics }, { signal: this.end.signal }));
      if (!this.isDone) this.error = 'The connection ended before the run: nothing was stored.';
    } catch (error) {
      if (this.isCanceled) this.error = '';
      else this.error = error instanceof HTTPError ? error.message : 'The server is not reachable: nothing was stored.';
    }
    this.isRunning = false;
    this.onChange();
  }

  async read(response) {
    for await (const frame of frames(response)) {
      if (frame.error !== undefined) throw new HTTPError(500, frame.error);
      if (frame.total !== undefined) this.total = frame.total;
      if (frame.case) this.cases.push(frame.case);
      if (frame.resultId) this.resultId = frame.resultId;
      if (frame.done) this.isDone = true;
      this.onChange();
    }
  }

  /** cancel ends the run; nothing is stored. */
  cancel() {
    this.isCanceled = true;
    this.end.abort();
  }
}

/** filePath escapes the path of a set. */
export const filePath = (file) => path(...file.split('/'));
