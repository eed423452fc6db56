// Drawings of the page.

import { svg } from './dom.js';

/** microphoneIcon draws a microphone in the color of the text. */
export const microphoneIcon = (attrs) => svg('svg', { class: 'icon', viewBox: '0 0 16 16', width: 14, height: 14, ...attrs },
  svg('rect', { x: 5.5, y: 1.5, width: 5, height: 8, rx: 2.5, fill: 'currentColor' }),
  svg('path', { d: 'M3 7.5a5 5 0 0 0 10 0M8 12.5v2', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-linecap': 'round' }));
