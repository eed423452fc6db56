package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// A LineReader reads a client's messages from a stream that has one in each line.
type LineReader struct {
	in      *bufio.Reader
	maximum int64
}

// NewLineReader returns a reader for lines of at most maximum bytes.
func NewLineReader(r io.Reader, maximum int64) *LineReader {
	return &LineReader{bufio.NewReaderSize(r, 64<<10), maximum}
}

// ErrLongLine reports a line that exceeds the limit.
var ErrLongLine = errors.New("message is too long")

// ReadLine returns the next line. After [ErrLongLine] the next line can be read; any other error ends
// the stream. It keeps no more than the limit of a line in memory.
func (r *LineReader) ReadLine() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		chunk, err := r.in.ReadSlice('\n')
		if tooLong = tooLong || int64(len(line)+len(chunk)) > r.maximum; !tooLong {
			line = append(line, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && err == nil:
			return nil, ErrLongLine
		case tooLong:
			return nil, err
		case err != nil && len(bytes.TrimSpace(line)) > 0:
			return line, nil // the last line has no end; the next read returns the error
		}
		return line, err
	}
}
