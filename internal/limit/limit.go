package limit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// An Error reports an input that exceeds a limit.
type Error struct {
	// Input is the row's name.
	Input string
	// Unit is bytes, values or levels.
	Unit  string
	Limit int
}

// Error returns the message, which has no input text.
func (e *Error) Error() string {
	return e.Input + " exceeds " + e.Excess()
}

// Excess returns what was exceeded, such as "the limit of 64 KiB".
func (e *Error) Excess() string {
	switch e.Unit {
	case levels:
		return fmt.Sprintf("the nesting limit of %d", e.Limit)
	case bytesUnit:
		return "the limit of " + FormatBytes(e.Limit)
	}
	return fmt.Sprintf("the limit of %d %s", e.Limit, e.Unit)
}

// The units in an [Error].
const (
	bytesUnit = "bytes"
	levels    = "levels"
)

// FormatBytes returns a size in the largest unit that divides it.
func FormatBytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// ReadAll reads a whole input, and checks its bytes, values and depth.
func (in Input) ReadAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(in.NewReader(r))
	if err != nil {
		return nil, err
	}
	return text, in.CheckJSON(text)
}

// NewReader returns a reader that fails with an [*Error] after the byte limit.
func (in Input) NewReader(r io.Reader) io.Reader { return &reader{r, in, in.Bytes} }

type reader struct {
	io.Reader
	input Input
	left  int
}

// Read reads until the limit, and one more byte to find out that there is more.
func (b *reader) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		b.left = -1
		return 0, &Error{b.input.Name, bytesUnit, b.input.Bytes}
	}
	return n, err
}

// An EventReader limits the bytes that are read for one stream event. Input is an event's.
type EventReader struct {
	io.Reader
	Input Input
	read  int
}

// Read reads until the limit.
func (e *EventReader) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if e.read += n; e.read > e.Input.Bytes {
		return 0, &Error{e.Input.Name, bytesUnit, e.Input.Bytes}
	}
	return n, err
}

// NextEvent begins the next event.
func (e *EventReader) NextEvent() { e.read = 0 }

// Lines scans a stream's lines. A line has at most its Input's bytes.
type Lines struct {
	*bufio.Scanner
	input Input
}

// NewLines returns a stream's lines, each of which is an input.
func NewLines(r io.Reader, line Input) *Lines {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, line.Bytes)
	return &Lines{lines, line}
}

// Err returns the first error.
func (l *Lines) Err() error {
	if err := l.Scanner.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return &Error{l.input.Name, bytesUnit, l.input.Bytes}
}

// CheckJSON checks how many values JSON has, and its depth, before it is decoded. Most texts have
// so few marks that they need not be scanned.
func (in Input) CheckJSON(text []byte) error {
	if in.Values == 0 || len(text) <= min(in.Values, in.Depth) || countMarks(text) <= min(in.Values, in.Depth) {
		return nil
	}
	return in.CheckMeasure(Measure(text))
}

// CheckValues checks only the values, for decoders that report the depth with its place.
func (in Input) CheckValues(text []byte) error {
	in.Depth = math.MaxInt
	return in.CheckJSON(text)
}

// CheckCount checks how many values there are.
func (in Input) CheckCount(values int) error { return in.CheckMeasure(values, 0) }

// CheckMeasure checks the values and the depth of an input that its reader has measured.
func (in Input) CheckMeasure(values, depth int) error {
	switch {
	case depth > in.Depth:
		return &Error{in.Name, levels, in.Depth}
	case values > in.Values:
		return &Error{in.Name, "values", in.Values}
	}
	return nil
}

// A Meter counts the values in an input that arrives in several texts. The zero value with an Input
// is ready to use. It is not safe for concurrent use.
type Meter struct {
	Input  Input
	values int
}

// AddJSON counts the values in one more text. An error means that all texts together exceed the
// value limit, or that this one is too deep.
func (m *Meter) AddJSON(text []byte) error {
	values, depth := Measure(text)
	m.values += values
	return m.Input.CheckMeasure(m.values, depth)
}

// countMarks counts what Measure counts, also inside strings.
func countMarks(text []byte) (n int) {
	for _, mark := range []string{",", "[", "{", ":"} {
		n += bytes.Count(text, []byte(mark))
	}
	return n
}

// Measure returns how many values JSON has and how deep it is nested, without decoding it: it
// counts the separators outside strings. Other text has a result, too.
func Measure(text []byte) (values, depth int) {
	inString, level := false, 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if inString {
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
			continue
		}
		switch c {
		case '"':
			inString = true
		case ',', ':':
			values++
		case '[', '{':
			values++
			level++
			depth = max(depth, level)
		case ']', '}':
			level--
		}
	}
	return values, depth
}

// CountValues returns how many values a decoded JSON value has, as [Measure] counts them.
// It stops soon after the limit.
func CountValues(v any, most int) (values int) {
	switch v := v.(type) {
	case map[string]any:
		values = 1 + max(0, 2*len(v)-1)
		for _, item := range v {
			if values > most {
				return values
			}
			values += CountValues(item, most-values)
		}
	case []any:
		values = 1 + max(0, len(v)-1)
		for _, item := range v {
			if values > most {
				return values
			}
			values += CountValues(item, most-values)
		}
	}
	return values
}
