package spec

import (
	"fmt"
	"path"
	"path/filepath"
)

// A Pos is a place in a file that a person edits. Lines and columns count from
// 1; columns count characters. A zero Line means the file as a whole.
type Pos struct {
	File      string
	Line, Col int
}

// String is file:line:col, or the file alone.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Short is the place without the folders of its file: for messages that clients
// read, who need not know where the host keeps its apps.
func (p Pos) Short() Pos {
	if p.File != "" {
		p.File = path.Base(filepath.ToSlash(p.File))
	}
	return p
}

// moveRight is the place n characters further on the same line.
func (p Pos) moveRight(n int) Pos {
	p.Col += n
	return p
}
