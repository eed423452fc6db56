package evalfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// AppendCase returns an eval file's text with a further case, as [RenderCase] writes it. All
// else, comments included, stays as it is. Without a file, src is empty. It is an error if the
// file has problems, has the case already, or its cases are not a block list.
func AppendCase(file string, src []byte, item string) ([]byte, error) {
	n, ds := spec.Parse(file, src)
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	if n.IsNull() {
		return append(endLine(src), "cases:\n"+indentText(item, "  ")...), nil
	}
	before, ds := Decode(n, &Names{})
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	cases := n.Get("cases")
	lines := strings.SplitAfter(string(endLine(src)), "\n")
	first := lines[cases.Items[0].Pos.Line-1]
	dash := len(first) - len(strings.TrimLeft(first, " "))
	if !strings.HasPrefix(first[dash:], "- ") {
		return nil, appendError(cases)
	}
	at := endOfBlock(lines, cases.Items[len(cases.Items)-1].Pos.Line, dash)
	text := strings.Join(lines[:at], "") + indentText(item, first[:dash]) + strings.Join(lines[at:], "")
	return []byte(text), checkAppended(file, []byte(text), before, cases)
}

func endLine(src []byte) []byte {
	if len(src) > 0 && src[len(src)-1] != '\n' {
		return append(bytes.Clone(src), '\n')
	}
	return src
}

func indentText(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + line)
	}
	return b.String()
}

// endOfBlock returns the number of lines up to the last one in a list item. The item begins in a
// line and is indented by more than its dash. Comments and blank lines that follow are left out.
func endOfBlock(lines []string, line, dash int) int {
	end := line
	for i := line; i < len(lines); i++ {
		text := strings.TrimRight(lines[i], "\r\n")
		indent := len(text) - len(strings.TrimLeft(text, " "))
		switch {
		case strings.TrimSpace(text) == "":
			continue
		case indent <= dash:
			return end
		}
		end = i + 1
	}
	return end
}

func appendError(cases *spec.Node) error {
	return spec.Diagnostics{cases.Errorf("eval", "cannot append to cases: not a block list").WithHint("write each case on its own lines, as - name: NAME")}.Err()
}

// checkAppended expects one more case, and the others as they were.
func checkAppended(file string, src []byte, before *File, cases *spec.Node) error {
	after, ds := Read(file, src, &Names{})
	if ds.HasErrors() {
		return fmt.Errorf("the case was not added: %w", ds.Err())
	}
	if len(after.Cases) != len(before.Cases)+1 {
		return appendError(cases)
	}
	for i := range before.Cases {
		old, err := eval.EncodeFile(before.Cases[i])
		same, err2 := eval.EncodeFile(after.Cases[i])
		if err != nil || err2 != nil || !bytes.Equal(old, same) {
			return errors.Join(err, err2, appendError(cases))
		}
	}
	return nil
}
