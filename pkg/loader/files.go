package loader

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// readFiles gives a config the texts of the files that it names.
func (j *job) readFiles(config any) {
	if c, ok := config.(interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}); ok {
		j.report(c.ReadFiles(j.textFile)...)
	}
}

// textFile reads a text of the app, by its path from the app's folder.
func (j *job) textFile(given string) (string, error) {
	file := path.Clean(given)
	if path.IsAbs(given) || strings.Contains(given, "\\") || file == ".." || strings.HasPrefix(file, "../") {
		return "", fmt.Errorf("%s leads out of the app's folder", given)
	}
	if !j.src.exists(file) {
		return "", fmt.Errorf("there is no file %s", j.src.display(file))
	}
	b, err := j.src.bytes(file)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %s", j.src.display(file), plain(err))
	case len(b) > maxFile:
		return "", fmt.Errorf("%s is larger than 4 MiB", j.src.display(file))
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is no text in UTF-8", j.src.display(file))
	}
	return string(b), nil
}
