package spec

import (
	"fmt"
	"path"
	"path/filepath"
)

// A Pos is a position in a file. Lines and columns start at 1; columns count characters.
// Line is 0 for the file as a whole.
type Pos struct {
	File      string
	Line, Col int
}

// String returns "file:line:col", or only the file if there is no line.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Short returns the position with the base name of its file, for messages to clients
// that should not reveal the directories of the host.
func (p Pos) Short() Pos {
	if p.File != "" {
		p.File = path.Base(filepath.ToSlash(p.File))
	}
	return p
}

func (p Pos) moveRight(n int) Pos {
	p.Col += n
	return p
}
