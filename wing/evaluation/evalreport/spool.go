package evalreport

import (
	"io"
	"os"
)

// A spool is a temporary file of texts.
type spool struct {
	file *os.File
	end  int64
}

// A segment is the place of a string in a spool.
type segment struct{ start, size int64 }

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "agenthost-eval-*")
	if err != nil {
		return nil, err
	}
	return &spool{file: f}, nil
}

func (s *spool) closeFile() error {
	err := s.file.Close()
	if removeErr := os.Remove(s.file.Name()); err == nil {
		err = removeErr
	}
	return err
}

func (s *spool) appendText(text string) (segment, error) {
	n, err := s.file.WriteString(text)
	at := segment{s.end, int64(n)}
	s.end += int64(n)
	return at, err
}

// copyText writes a segment to w.
func (s *spool) copyText(w io.Writer, at segment) error {
	_, err := io.Copy(w, io.NewSectionReader(s.file, at.start, at.size))
	return err
}

func (s *spool) readText(at segment) (string, error) {
	text, err := io.ReadAll(io.NewSectionReader(s.file, at.start, at.size))
	return string(text), err
}
