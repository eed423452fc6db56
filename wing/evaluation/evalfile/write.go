package evalfile

import (
	"errors"
	"io/fs"
	"os"

	"agenthost/internal/limit"
	"agenthost/pkg/session"
	"agenthost/wing/evaluation/eval"
)

// WriteSet replaces a set file in ADK's form atomically: NAME.evalset.json.
func WriteSet(root *os.Root, name string, set *eval.Set) error {
	text, err := eval.EncodeFile(set)
	if err != nil {
		return err
	}
	if len(text) > limit.EvalFile.Bytes {
		return &session.LimitError{Part: "eval set", Limit: int64(limit.EvalFile.Bytes), Hint: "split it into several sets"}
	}
	// The loader's watch ignores names that begin with a dot.
	draft := "." + name + eval.SetSuffix + ".new"
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(draft, name+eval.SetSuffix)
	}
	if err != nil {
		_ = root.Remove(draft)
	}
	return err
}
