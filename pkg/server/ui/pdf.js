// PDF files, in the browser's own viewer.

import { el } from './dom.js';

const MARK = '%PDF-';

/**
 * canShowPDF reports whether bytes are a PDF file that this window can show. The viewer of browsers runs
 * in no sandbox, so a sandboxed window has none.
 */
export function canShowPDF(bytes) {
  return !!navigator.pdfViewerEnabled && [...MARK].every((sign, i) => bytes[i] === sign.charCodeAt(0));
}

/** drawPDF shows a PDF file. The type is fixed, so that the bytes never become a page. */
export const drawPDF = (bytes, name) => el('iframe', { class: 'pdf', src: URL.createObjectURL(new Blob([bytes], { type: 'application/pdf' })), title: name });
