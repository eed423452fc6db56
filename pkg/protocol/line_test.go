package protocol

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A line that is too long is skipped, and the last line needs no end.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	r := NewLineReader(strings.NewReader("a\n"+long+"\nb\n\n"+long[:9]+"\nc"), 5)
	var got strings.Builder
	for {
		line, err := r.ReadLine()
		fmt.Fprintf(&got, "%q %v\n", line, err)
		if errors.Is(err, io.EOF) {
			break
		}
	}
	const want = `"a\n" <nil>
"" message is too long
"b\n" <nil>
"\n" <nil>
"" message is too long
"c" <nil>
"" EOF
`
	if got.String() != want {
		t.Errorf("got\n%s", &got)
	}
}
