package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"agenthost/pkg/spec"
)

// ReadOutcomeRetention returns the outcome_retention in a folder's app.yaml, without loading the app and
// without overlays; 0 if the folder or the file is missing, or the file does not set it.
func ReadOutcomeRetention(dir string) (time.Duration, error) {
	src, err := openSource(dir, &Options{Env: func(string) (string, bool) { return "", false }})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s: %s", dir, formatOSError(err))
	}
	defer src.close()
	if !src.fileExists(appFile) {
		return 0, nil
	}
	n, ds := src.parseFile(appFile)
	if err := ds.Err(); err != nil {
		return 0, err
	}
	v := n.Get("outcome_retention")
	if v.IsNull() {
		return 0, nil
	}
	var keep spec.Duration
	err = keep.DecodeSpec(v).Err()
	return time.Duration(keep), err
}
