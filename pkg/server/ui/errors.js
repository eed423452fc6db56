// Errors of events in words. Most have a message; models may report only why they stopped.

const WORDS = {
  MAX_TOKENS: 'The model stopped at its limit of tokens.',
  SAFETY: 'The model withheld its answer for safety reasons.',
  IMAGE_SAFETY: 'The model withheld an image for safety reasons.',
  RECITATION: 'The model stopped because it would have quoted a source at length.',
  LANGUAGE: 'The model does not support this language.',
  BLOCKLIST: 'The answer contains a blocked term.',
  PROHIBITED_CONTENT: 'The answer may contain prohibited content.',
  SPII: 'The answer may contain personal data.',
  MALFORMED_FUNCTION_CALL: 'The model wrote a call that cannot be read.',
  UNEXPECTED_TOOL_CALL: 'The model called a tool that it does not have.',
  MODEL_RETURNED_NO_CONTENT: 'The model returned no answer.',
  SESSION_BUSY: 'Another turn of this session is running.',
  UNAVAILABLE: 'The server is not available.',
  CANCELED: 'The turn was canceled.',
  INTERNAL: 'The server failed.',
};

const ABORTED = 'INVOCATION_ABORTED';

/** isAborted reports whether an event only marks the end of an interrupted turn. */
export const isAborted = (event) => event.errorCode === ABORTED;

/** describeError returns the error of an event in words, or ''. */
export function describeError({ errorCode = '', errorMessage = '' }) {
  if (errorMessage && errorMessage !== errorCode) return errorMessage;
  return errorCode && (WORDS[errorCode] ?? `The turn failed with the code ${errorCode}.`);
}
