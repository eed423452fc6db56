package session

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Outcome counts what came out of a session's turns on one revision, in one protocol, on one day:
// how they ended, how long they took, what they cost and which approvals they asked for. It holds no
// content. It is a value for one goroutine.
//
// A store keeps it with the events instead of in rows of its own: each event has the outcome up to and
// including itself, so the last event of a session has the latest one. An append names the version
// that it follows, so counting needs no lock and no second statement, a retry counts nothing twice,
// and a writer that lost its lease counts nothing. When the revision, the protocol or the day changes,
// a new outcome begins, and Previous names the event that has the one before. So does the outcome of an event
// that begins a turn, to store fewer bytes; the turn's next event has the whole outcome again.
type Outcome struct {
	// Revision is the app's revision; empty if it has none.
	Revision string
	// Protocol is how the turns arrived, such as run_sse; empty is unknown.
	Protocol string
	// Day is the day on which the first turn started, in days since 1970-01-01 UTC.
	Day int64
	// Previous is the Seq of the event with the session's outcome before this one; 0 is none.
	Previous int64
	// Selected reports that the session got its revision by an expression, and not by chance: it is in
	// no random sample. It stays for the rest of the session.
	Selected bool

	// Turns counts the user's messages.
	Turns int64
	// Code is how the latest turn ended, or has got so far: an error code, [CodeUnfinished], or empty
	// if it ended well.
	Code string
	// Failures count the earlier turns that did not end well, by code.
	Failures []CodeCount
	// Millis is the time of all turns in milliseconds, from the user's event to the last one, and
	// SquaredMillis the sum of the squares.
	Millis, SquaredMillis int64
	// Asked, Approved and Rejected count confirmations of tool calls.
	Asked, Approved, Rejected int64
	// Agents counts model and tool calls by agent.
	Agents []AgentOutcome
}

// CodeUnfinished is the code of a turn whose last event is not a final one: it still runs, its process
// ended, its client left, or it failed without an event.
const CodeUnfinished = "UNFINISHED"

// A CodeCount counts turns with an error code.
type CodeCount struct {
	Code  string
	Turns int64
}

// An AgentOutcome counts an agent's model and tool calls.
type AgentOutcome struct {
	Agent string
	// Calls counts model responses with a token count, and Priced those with a price.
	Calls, Priced int64
	// Input counts prompt tokens with the cached ones, Cached the cached ones, and Output response
	// tokens.
	Input, Cached, Output int64
	// NanoUSD is the price of the priced calls in billionths of a US dollar.
	NanoUSD int64
	// ToolCalls counts function calls, and ToolErrors the responses with an error.
	ToolCalls, ToolErrors int64
}

// USD is the price of the priced calls in US dollars.
func (a *AgentOutcome) USD() float64 { return float64(a.NanoUSD) / 1e9 }

// The limits on an outcome. Agents and codes above them are counted as [OtherName].
const (
	maxOutcomeAgents = 32
	maxOutcomeCodes  = 16
	maxOutcomeName   = 128
	maxOutcomeText   = 64 << 10
)

// OtherName is the name for agents and codes above the limits, and for names that are too long.
const OtherName = "(other)"

// IsEmpty reports whether nothing is counted.
func (o *Outcome) IsEmpty() bool {
	return o.Turns == 0 && o.Asked == 0 && o.Approved == 0 && o.Rejected == 0 && len(o.Failures) == 0 && len(o.Agents) == 0
}

// CountFailed returns how many turns did not end well.
func (o *Outcome) CountFailed() int64 {
	var n int64
	for _, f := range o.Failures {
		n += f.Turns
	}
	if o.Code != "" {
		n++
	}
	return n
}

// BeginTurn counts a turn, which is unfinished until Code is set.
func (o *Outcome) BeginTurn() {
	o.CloseTurn()
	o.Turns, o.Code = o.Turns+1, CodeUnfinished
}

// CloseTurn counts how the latest turn ended with the earlier ones.
func (o *Outcome) CloseTurn() {
	if o.Code != "" {
		o.addFailures(o.Code, 1)
	}
	o.Code = ""
}

func (o *Outcome) addFailures(code string, turns int64) {
	code = boundName(code)
	at := slices.IndexFunc(o.Failures, func(f CodeCount) bool { return f.Code == code })
	most := maxOutcomeCodes
	if o.Selected {
		most--
	}
	if at < 0 && len(o.Failures) >= most-1 && code != OtherName {
		o.addFailures(OtherName, turns)
		return
	}
	if at < 0 {
		at, o.Failures = len(o.Failures), append(o.Failures, CodeCount{Code: code})
	}
	o.Failures[at].Turns = addBounded(o.Failures[at].Turns, turns)
}

// AddAgent adds an agent's counts.
func (o *Outcome) AddAgent(a AgentOutcome) {
	a.Agent = boundName(a.Agent)
	at := slices.IndexFunc(o.Agents, func(b AgentOutcome) bool { return b.Agent == a.Agent })
	if at < 0 && len(o.Agents) >= maxOutcomeAgents-1 && a.Agent != OtherName {
		a.Agent = OtherName
		o.AddAgent(a)
		return
	}
	if at < 0 {
		o.Agents = append(o.Agents, a)
		return
	}
	sum := &o.Agents[at]
	from := a.listNumbers()
	for i, n := range sum.listNumbers() {
		*n = addBounded(*n, *from[i])
	}
}

// Add adds the counts of another outcome. The revision, the protocol and the day stay.
func (o *Outcome) Add(b *Outcome) {
	o.CloseTurn()
	from := b.listNumbers()
	for i, n := range o.listNumbers() {
		if i >= keyNumbers {
			*n = addBounded(*n, *from[i])
		}
	}
	for _, f := range b.Failures {
		o.addFailures(f.Code, f.Turns)
	}
	if b.Code != "" {
		o.addFailures(b.Code, 1)
	}
	for _, a := range b.Agents {
		o.AddAgent(a)
	}
}

func addBounded(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// boundName returns a name, or OtherName for one that is too long.
func boundName(name string) string {
	if len(name) > maxOutcomeName {
		return OtherName
	}
	return name
}

// The first numbers are a day and an event; the others are counts.
const keyNumbers = 2

// listNumbers returns the stored numbers, in order.
func (o *Outcome) listNumbers() [8]*int64 {
	return [8]*int64{&o.Day, &o.Previous, &o.Turns, &o.Millis, &o.SquaredMillis, &o.Asked, &o.Approved, &o.Rejected}
}

// listNumbers returns the stored numbers, in order.
func (a *AgentOutcome) listNumbers() [8]*int64 {
	return [8]*int64{&a.Calls, &a.Priced, &a.Input, &a.Cached, &a.Output, &a.NanoUSD, &a.ToolCalls, &a.ToolErrors}
}

const (
	// outcomeForm is the first word of an encoded outcome.
	outcomeForm = "1"
	// selectedCode stores Selected as a code without turns. An agenthost that does not know the field
	// reads it, counts nothing for it, and writes it back.
	selectedCode = "(selected)"
)

// Append appends the stored form, which [Outcome.Decode] reads: words separated by spaces. It is
// nothing for an outcome that neither counts anything nor follows another one.
func (o *Outcome) Append(dst []byte) []byte {
	if o.IsEmpty() && o.Previous == 0 {
		return dst
	}
	dst = append(dst, outcomeForm...)
	dst = appendNumbers(dst, o.listNumbers())
	for _, name := range [...]string{o.Revision, o.Protocol, o.Code} {
		dst = appendWord(append(dst, ' '), name)
	}
	if o.Selected {
		dst = append(dst, " !"+selectedCode+" 0"...)
	}
	for _, f := range o.Failures {
		dst = appendWord(append(dst, " !"...), f.Code)
		dst = strconv.AppendInt(append(dst, ' '), f.Turns, 10)
	}
	for i := range o.Agents {
		a := &o.Agents[i]
		dst = appendWord(append(dst, " @"...), a.Agent)
		dst = appendNumbers(dst, a.listNumbers())
	}
	return dst
}

// appendNumbers appends numbers with a space before each. Most have one digit.
func appendNumbers(dst []byte, numbers [8]*int64) []byte {
	for _, n := range numbers {
		if 0 <= *n && *n < 10 {
			dst = append(dst, ' ', byte('0'+*n))
		} else {
			dst = strconv.AppendInt(append(dst, ' '), *n, 10)
		}
	}
	return dst
}

// appendWord appends a name without spaces. An empty one is a hyphen.
func appendWord(dst []byte, name string) []byte {
	if name == "" {
		return append(dst, '-')
	}
	if isPlainWord(name) {
		return append(dst, name...)
	}
	valid := utf8.ValidString(name) // databases reject other strings
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c == '%' || c == 0x7f || c >= utf8.RuneSelf && !valid || name == "-" {
			dst = fmt.Appendf(dst, "%%%02X", c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// isPlainWord reports that a name is stored as it is: each turn stores the same few ASCII names twice.
func isPlainWord(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == '%' || c >= 0x7f {
			return false
		}
	}
	return name != "-"
}

// errOutcome is the error for text that is not an outcome.
var errOutcome = errors.New("malformed outcome")

// Decode reads the form that Append writes. It reuses the capacity of Agents and Failures, and the
// strings Revision, Protocol and those in Agents' capacity if they are equal. After an error the outcome
// is empty.
func (o *Outcome) Decode(text []byte) error {
	revision, protocol := o.Revision, o.Protocol
	*o = Outcome{Agents: o.Agents[:0], Failures: o.Failures[:0]}
	if len(text) == 0 {
		return nil
	}
	if len(text) > maxOutcomeText {
		return fmt.Errorf("outcome exceeds the limit of %d bytes", maxOutcomeText)
	}
	w := words{rest: text}
	if string(w.nextWord()) != outcomeForm {
		return fmt.Errorf("%w: unknown form %.20q", errOutcome, text)
	}
	for _, n := range o.listNumbers() {
		*n = w.nextNumber()
	}
	o.Revision, o.Protocol, o.Code = w.nextName(revision), w.nextName(protocol), w.nextName("")
	for len(w.rest) > 0 && !w.failed {
		switch name := w.nextWord(); {
		case bytes.HasPrefix(name, []byte{'!'}):
			o.readCode(&w, name[1:])
		case bytes.HasPrefix(name, []byte{'@'}) && len(o.Agents) < maxOutcomeAgents:
			o.readAgent(&w, name[1:])
		default:
			w.failed = true
		}
	}
	if w.failed {
		*o = Outcome{}
		return errOutcome
	}
	return nil
}

// readAgent reads an agent's counts. Its name is likely that which the entry has had.
func (o *Outcome) readAgent(w *words, name []byte) {
	var likely string
	if n := len(o.Agents); n < cap(o.Agents) {
		likely = o.Agents[:n+1][n].Agent
	}
	a := AgentOutcome{Agent: w.readName(name, likely)}
	for _, n := range a.listNumbers() {
		*n = w.nextNumber()
	}
	o.Agents = append(o.Agents, a)
}

// readCode reads a code's count.
func (o *Outcome) readCode(w *words, code []byte) {
	switch turns := w.nextNumber(); {
	case turns == 0 && string(code) == selectedCode:
		o.Selected = true
	case len(o.Failures) < maxOutcomeCodes:
		o.Failures = append(o.Failures, CodeCount{w.unescapeName(code), turns})
	default:
		w.failed = true
	}
}

// PreviousOutcome returns Previous from the stored form of an outcome; 0 for other text.
func PreviousOutcome(text []byte) int64 {
	w := words{rest: text}
	form, _, previous := w.nextWord(), w.nextNumber(), w.nextNumber()
	if w.failed || string(form) != outcomeForm {
		return 0
	}
	return previous
}

// words reads the words of an encoded outcome.
type words struct {
	rest   []byte
	failed bool
}

// nextWord returns the next word; none is a failure.
func (w *words) nextWord() []byte {
	word := w.rest
	if at := bytes.IndexByte(w.rest, ' '); at >= 0 {
		word, w.rest = w.rest[:at], w.rest[at+1:]
	} else {
		w.rest = nil
	}
	w.failed = w.failed || len(word) == 0
	return word
}

// nextNumber returns the next word as a number; another word is a failure.
func (w *words) nextNumber() int64 {
	if len(w.rest) > 1 && w.rest[1] == ' ' && '0' <= w.rest[0] && w.rest[0] <= '9' { // most have one digit
		n := int64(w.rest[0] - '0')
		w.rest = w.rest[2:]
		return n
	}
	var n int64
	for i, c := range w.rest {
		digit := int64(c) - '0'
		switch {
		case c == ' ' && i > 0:
			w.rest = w.rest[i+1:]
			return n
		case digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10:
			w.failed = true
			return 0
		}
		n = 10*n + digit
	}
	w.failed = w.failed || len(w.rest) == 0
	w.rest = nil
	return n
}

// nextName returns the next word as a name, which is likely the same as another one.
func (w *words) nextName(likely string) string { return w.readName(w.nextWord(), likely) }

// readName returns a word as a name, which is likely the same as another one.
func (w *words) readName(word []byte, likely string) string {
	if string(word) != likely || !isPlainWord(likely) {
		return w.unescapeName(word)
	}
	return likely
}

func (w *words) unescapeName(escaped []byte) string {
	word := string(escaped)
	if word == "-" {
		return ""
	}
	if !strings.Contains(word, "%") {
		return word
	}
	var b strings.Builder
	for word != "" {
		before, after, escaped := strings.Cut(word, "%")
		b.WriteString(before)
		word = after
		if !escaped {
			break
		}
		if len(after) < 2 {
			w.failed = true
			break
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		w.failed = w.failed || err != nil
		b.WriteByte(byte(c))
		word = after[2:]
	}
	return b.String()
}
