// Drawings of the page.

import { svg } from './dom.js';

/** microphoneIcon draws a microphone in the color of the text. */
export const microphoneIcon = (attrs) => svg('svg', { class: 'icon', viewBox: '0 0 16 16', width: 14, height: 14, ...attrs },
  svg('rect', { x: 5.5, y: 1.5, width: 5, height: 8, rx: 2.5, fill: 'currentColor' }),
  svg('path', { d: 'M3 7.5a5 5 0 0 0 10 0M8 12.5v2', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-linecap': 'round' }));

/** thumbIcon draws a thumb that points up or down. */
export const thumbIcon = (isUp) => svg('svg', { class: 'icon', viewBox: '0 0 16 16', width: 14, height: 14, 'aria-hidden': 'true' },
  svg('path', { d: 'M5 7v6.5H2.5V7zM5 7l2.6-5c1 0 1.6.7 1.4 1.7L8.6 6H12c.9 0 1.5.8 1.3 1.6l-1.1 4.8c-.2.7-.7 1.1-1.3 1.1H5', transform: isUp ? null : 'rotate(180 8 8)',
    fill: 'none', stroke: 'currentColor', 'stroke-width': 1.3, 'stroke-linejoin': 'round' }));
