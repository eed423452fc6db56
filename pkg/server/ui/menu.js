// A button with a menu of actions, for the mouse and the keyboard.

import { el } from './dom.js';

/**
 * menuButton creates a button that opens a menu. items returns its entries when it opens:
 * each has its text, act, and if it is not available a reason.
 */
export function menuButton(label, text, items) {
  const button = el('button', { type: 'button', class: 'act', 'aria-haspopup': 'menu', 'aria-expanded': 'false', 'aria-label': label, title: label }, text);
  const open = (at) => openMenu(button, label, items(), at);
  button.addEventListener('click', () => open(0));
  button.addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    open(event.key === 'ArrowDown' ? 0 : -1);
  });
  return button;
}

function openMenu(button, label, items, at) {
  const menu = el('div', { role: 'menu', class: 'menu', popover: 'auto', 'aria-label': label });
  const close = () => menu.hidePopover();
  const run = (act) => {
    close();
    button.focus();
    act();
  };
  const entries = items.map(({ text, act, reason }) => el('button', {
    type: 'button', role: 'menuitem', tabindex: -1, title: reason, 'aria-disabled': reason ? 'true' : null,
    onclick: () => reason || run(act),
  }, text, reason && el('span', { class: 'dim' }, reason)));
  menu.append(...entries);
  menu.addEventListener('keydown', (event) => {
    const now = entries.indexOf(document.activeElement);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined && event.key !== 'Escape' && event.key !== 'Tab') return;
    event.preventDefault();
    event.stopPropagation(); // Escape would also stop an answer
    if (to === undefined) {
      close();
      button.focus();
    } else entries.at(to % entries.length).focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    button.setAttribute('aria-expanded', 'false');
    menu.remove();
  });
  document.body.append(menu);
  menu.showPopover();
  button.setAttribute('aria-expanded', 'true');
  place(menu, button.getBoundingClientRect());
  entries.at(at)?.focus();
}

// place puts the menu below the button, or above it if there is no room.
function place(menu, anchor) {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const isBelow = anchor.bottom + height + 8 <= innerHeight || anchor.top < height + 8;
  menu.style.left = `${Math.max(8, Math.min(anchor.left, innerWidth - width - 8))}px`;
  menu.style.top = `${Math.max(8, isBelow ? Math.min(anchor.bottom + 2, innerHeight - height - 8) : anchor.top - height - 2)}px`;
}
