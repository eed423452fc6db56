package loader

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/internal/regular"
	"agenthost/pkg/spec"
)

// fillReferences expands a document's references.
func (s *source) fillReferences(root *spec.Node) spec.Diagnostics {
	s.roots = append(s.roots, root)
	ds := spec.Interpolate(root, s.resolveReference)
	if ds.HasErrors() {
		s.unfilledProblems = append(s.unfilledProblems, ds...)
		s.recordUnfilled(root, ds)
	}
	return ds
}

// resolveReference returns a reference's value and adds it to the revision. Beyond the load limits
// it returns nothing, which is reported once.
func (s *source) resolveReference(kind, name string) (string, error) {
	if s.budget.isExceeded() {
		return "", nil
	}
	v, err := s.findReference(kind, name)
	isCounted := kind == "file" // by readWithinBudget
	if isLimitError(err) || err == nil && !isCounted && s.budget.consume(len(v), 0) != nil {
		return "", nil
	}
	return v, err
}

func (s *source) findReference(kind, name string) (value string, err error) {
	switch {
	case kind == "file":
		return s.readTextFile(name)
	case s.keepsReferences:
		s.usedValues[kind+" "+name] = ""
		return "", spec.ErrKept
	case kind == "secret":
		value, err = s.findSecret(name)
	default:
		value, err = s.findVariable(name)
	}
	switch {
	case err == nil:
		s.usedValues[kind+" "+name] = "=" + value
	case kind == "env":
		s.usedValues[kind+" "+name] = ""
	}
	return value, err
}

// findVariable reads a variable from the host's environment, if the app may read it,
// else from the app's .env.
func (s *source) findVariable(name string) (string, error) {
	value, isSet := s.env(name)
	err := s.policy.CheckVariable(s.name, name)
	if err == nil && isSet {
		err = s.policy.CheckValue(s.name, "the environment variable "+name, value)
	}
	if own, ok := s.dotenv[name]; ok && (err != nil || !isSet) {
		return own, nil
	}
	switch {
	case err != nil:
		return "", s.policyError(err, isSet, "set "+name+" in the app's .env")
	case !isSet:
		return "", spec.ErrUnset
	}
	return value, nil
}

// findSecret reads a secret: the file in the app's own secrets folder; if the app may use them, the
// shared file or the host's variable; else the variable in the app's .env.
func (s *source) findSecret(name string) (string, error) {
	value, err := s.readOwnSecret(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return value, err
	}
	refused := s.policy.CheckSecret(s.name, name)
	if refused == nil {
		value, err = s.findSharedSecret(name)
		if err == nil {
			refused = s.policy.CheckValue(s.name, "the secret "+name, value)
		}
		if refused == nil && !errors.Is(err, fs.ErrNotExist) {
			return value, err
		}
	}
	if own, ok := s.dotenv[name]; ok {
		return own, nil
	}
	if refused != nil {
		return "", s.policyError(refused, false, "write it to "+s.name+"/"+name+" in the folder of --secrets, or to the app's .env")
	}
	return "", spec.ErrUnset
}

// policyError returns the error for a reference that the app may not use. instead is the hint for
// the app's own value.
func (s *source) policyError(err error, isSet bool, instead string) error {
	refused := (*policy.Refused)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	e := &spec.LookupError{Rule: "grant", Message: refused.Message(), Hint: instead}
	if hint := refused.Hint(); hint != "" {
		e.Hint += ", or " + hint
	}
	if isSet {
		e.Ignored = e.Message
	}
	return e
}

// readOwnSecret reads a file in the app's own secrets folder.
func (s *source) readOwnSecret(name string) (string, error) {
	if s.secrets == "" || !appName.MatchString(s.name) {
		return "", fs.ErrNotExist
	}
	root, err := s.openSecrets()
	if err != nil {
		return "", err
	}
	defer root.Close()
	s.addDependency(filepath.Join(s.secrets, s.name, name))
	// Case-insensitive file systems find folders by other names.
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == s.name }) {
		return "", fs.ErrNotExist
	}
	own, err := root.OpenRoot(s.name)
	if err != nil {
		return "", fs.ErrNotExist // a shared secret that has the app's name
	}
	defer own.Close()
	return readSecret(own, name)
}

// findSharedSecret reads a file in the secrets folder itself, or a host variable.
func (s *source) findSharedSecret(name string) (string, error) {
	value, ok := s.env(name)
	if s.secrets != "" {
		root, err := s.openSecrets()
		if err != nil {
			return "", err
		}
		defer root.Close()
		s.addDependency(filepath.Join(s.secrets, name))
		if read, err := readSecret(root, name); !ok || !errors.Is(err, fs.ErrNotExist) {
			return read, err
		}
	}
	if !ok {
		return "", fs.ErrNotExist
	}
	return value, nil
}

func (s *source) openSecrets() (*os.Root, error) {
	root, err := os.OpenRoot(s.secrets)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secrets folder: %s", formatOSError(err))
	}
	return root, nil
}

// readSecret reads a secret file. It follows links that stay in the folder, such as Kubernetes'
// links. It removes the trailing line feed.
func readSecret(root *os.Root, name string) (string, error) {
	f, err := regular.Open(root.OpenFile, name, os.O_RDONLY)
	if err != nil {
		return "", secretError(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit.SecretFile.Bytes)+1))
	switch {
	case err != nil:
		return "", secretError(name, err)
	case len(b) > limit.SecretFile.Bytes:
		return "", fmt.Errorf("secret %s exceeds the limit of 64 KiB", name)
	case !utf8.Valid(b):
		return "", fmt.Errorf("secret %s is not valid UTF-8", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func secretError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("cannot read secret %s: %s", name, formatOSError(err))
}

// readTextFile reads an app's text file, by its path in the app folder.
func (s *source) readTextFile(given string) (string, error) {
	file := path.Clean(given)
	if strings.Contains(given, "\\") {
		return "", fmt.Errorf("%s contains a backslash: %s", given, slashHint)
	}
	if escapesFolder(given) {
		return "", fmt.Errorf("%s is outside of the app folder", given)
	}
	if strings.EqualFold(path.Base(file), dotenvFile) {
		return "", fmt.Errorf("%s contains secrets: write ${env:NAME} or ${secret:NAME} for one of its variables", given)
	}
	if !s.fileExists(file) {
		return "", errors.New(s.missingFileMessage(file))
	}
	b, err := s.readWithinBudget(file)
	switch {
	case isLimitError(err):
		return "", err
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %s", s.displayPath(file), formatOSError(err))
	case len(b) > limit.AppFile.Bytes:
		return "", fmt.Errorf("%s exceeds the limit of 4 MiB", s.displayPath(file))
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is not valid UTF-8", s.displayPath(file))
	}
	return string(b), nil
}

// recordUnfilled records a tree's scalars whose references have problems.
func (s *source) recordUnfilled(n *spec.Node, problems spec.Diagnostics) {
	for _, e := range n.Entries {
		s.recordUnfilled(e.Value, problems)
	}
	for _, item := range n.Items {
		s.recordUnfilled(item, problems)
	}
	text := n.Text()
	for i := strings.Index(text.Value, "${"); i >= 0; {
		at := text.At(i)
		if slices.ContainsFunc(problems, func(d spec.Diagnostic) bool { return d.Pos == at }) {
			s.unfilled = append(s.unfilled, unfilledScalar{n.Pos, text.At(len(text.Value))})
			return
		}
		next := strings.Index(text.Value[i+1:], "${")
		if next < 0 {
			return
		}
		i += 1 + next
	}
}
