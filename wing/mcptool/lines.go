package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"

	"agenthost/internal/limit"
)

// A lineReader reads a program's output, with one message in each line, and returns the messages
// for the library. Other lines, such as a banner, are skipped, as the official SDKs do.
type lineReader struct {
	lines  *bufio.Reader
	filter *messageFilter
	// ready are bytes that were not yet returned.
	ready []byte
}

func newLineReader(output io.Reader, filter *messageFilter) *lineReader {
	return &lineReader{lines: bufio.NewReaderSize(output, 64<<10), filter: filter}
}

// Read implements [io.Reader].
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		line, err := readLine(r.lines)
		if len(line) > 0 || errors.Is(err, errTooLarge) {
			r.ready = r.filterLine(line, err)
		}
		if len(r.ready) == 0 && err != nil && !errors.Is(err, errTooLarge) {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// filterLine returns a line's messages.
func (r *lineReader) filterLine(line []byte, err error) []byte {
	var messages []message
	switch start := findMessage(line); {
	case err != nil && !errors.Is(err, io.EOF):
		messages = r.filter.rejectResponse(line, "", err.Error())
	case start < 0:
		r.filter.logSkipped(line)
	default:
		if start > 0 {
			r.filter.logSkipped(line[:start])
		}
		messages = r.filter.repairMessages(line[start:], "")
	}
	var out []byte
	for _, m := range messages {
		out = append(append(out, m.encodeText()...), '\n')
	}
	return out
}

// messageStart is how a message begins after other text.
var messageStart = regexp.MustCompile(`\[?\{"(?:jsonrpc|id|method|result|error)"`)

// findMessage returns where a line's message begins, or -1. A program may have printed text before
// it without a line feed.
func findMessage(line []byte) int {
	if at := bytes.IndexAny(line, "{["); at >= 0 && len(bytes.Trim(line[:at], "\uFEFF \t\r")) == 0 && isObjectStart(line[at:]) {
		return at
	}
	if at := messageStart.FindIndex(line); at != nil {
		return at[0]
	}
	return -1
}

// isObjectStart reports whether text begins like an object, or an object list.
func isObjectStart(text []byte) bool { return text[0] == '{' || bytes.HasPrefix(text, []byte("[{")) }

// readLine reads a line without its end. A line that is too long is skipped: its beginning is
// returned with errTooLarge.
func readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		chunk, err := lines.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(chunk) > limit.MCPMessage.Bytes; !tooLong {
			line = append(line, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return line[:min(len(line), maxIDText)], errTooLarge
		}
		return bytes.TrimSpace(line), err
	}
}
