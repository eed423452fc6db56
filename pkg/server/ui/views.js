// The views next to the chat, in a table: each loads its data and draws it in the pane of the app.

import { el } from './dom.js';
import { loadRevisions, drawRevisions } from './revisions.js';
import { loadOperations, drawOperations } from './operations.js';
import { loadClients, drawClients } from './clients.js';

/**
 * VIEWS are the views of an app in the order of their buttons. load(app) resolves to what render(data, page)
 * draws; page has the app and refresh(), which loads again. A view of the whole server gets the app too.
 */
export const VIEWS = [
  { id: 'revisions', title: 'Revisions', load: loadRevisions, render: drawRevisions },
  { id: 'clients', title: 'Clients', load: loadClients, render: drawClients },
  { id: 'operations', title: 'Operations', load: loadOperations, render: drawOperations },
];

/** isView reports whether a view has an id. */
export const isView = (id) => VIEWS.some((v) => v.id === id);

/** addButtons adds a button for each view to a group. */
export function addButtons(group) {
  group.append(...VIEWS.map(({ id, title }) => el('button', { type: 'button', 'data-view': id, 'aria-pressed': 'false' }, title)));
}

/** A ViewPane shows one of the views for the selected app. */
export class ViewPane {
  constructor(section) {
    Object.assign(this, { section, app: '', id: '' });
  }

  /** show draws a view; '' for none. */
  show(id, app) {
    if (id === this.id && app === this.app) return;
    Object.assign(this, { id, app });
    this.section.replaceChildren();
    this.section.setAttribute('aria-label', VIEWS.find((v) => v.id === id)?.title ?? 'View');
    this.refresh();
  }

  /** refresh loads the shown view again, and keeps the old one until then. */
  async refresh() {
    const { app, id, section } = this;
    const view = VIEWS.find((v) => v.id === id);
    const request = this.request = {}; // an earlier answer is not drawn
    if (!view || !app) return;
    if (!section.childElementCount) section.replaceChildren(el('p', { class: 'dim' }, 'Loading…'));
    section.setAttribute('aria-busy', 'true');
    let nodes;
    try {
      nodes = view.render(await view.load(app), { app, refresh: () => this.refresh() });
    } catch (error) {
      nodes = el('p', { class: 'bad', role: 'alert' }, error.message);
    }
    if (request !== this.request) return;
    const label = section.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    section.removeAttribute('aria-busy');
    section.replaceChildren(nodes);
    if (label) section.querySelector(`[data-key="${CSS.escape(label)}"]`)?.focus();
  }
}
