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

	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
)

// maxSecret is the largest file that is read as a secret.
const maxSecret = 64 << 10

// fillReferences replaces the references of a document.
func (s *source) fillReferences(root *spec.Node) spec.Diagnostics {
	s.roots = append(s.roots, root)
	ds := spec.Interpolate(root, s.resolveReference)
	if ds.HasErrors() {
		s.unfilledProblems = append(s.unfilledProblems, ds...)
		s.recordUnfilled(root, ds)
	}
	return ds
}

// resolveReference is what a reference stands for. All of it counts for the revision.
// Beyond the limits of a load it is nothing: that is reported once.
func (s *source) resolveReference(kind, name string) (string, error) {
	if s.budget.isExceeded() {
		return "", nil
	}
	v, err := s.lookUpReference(kind, name)
	if isLimitError(err) || err == nil && s.budget.consume(len(v), 0) != nil {
		return "", nil
	}
	return v, err
}

func (s *source) lookUpReference(kind, name string) (value string, err error) {
	switch {
	case kind == "file":
		return s.readTextFile(name)
	case s.placeholder != nil:
		value = s.placeholder(name)
	case kind == "secret":
		value, err = s.lookUpSecret(name)
	default:
		value, err = s.lookUpVariable(name)
	}
	switch {
	case err == nil:
		s.usedValues[kind+" "+name] = "=" + value
	case kind == "env":
		s.usedValues[kind+" "+name] = ""
	}
	return value, err
}

// lookUpVariable reads a variable: that of the host, if the app may read it, or else
// the one of the app's .env.
func (s *source) lookUpVariable(name string) (string, error) {
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

// lookUpSecret reads a secret: the file of that name in the app's own folder of secrets;
// or, if the app may use them, the shared file of that name or the host's
// variable; or else the variable of the app's .env.
func (s *source) lookUpSecret(name string) (string, error) {
	value, err := s.readOwnSecret(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return value, err
	}
	refused := s.policy.CheckSecret(s.name, name)
	if refused == nil {
		value, err = s.lookUpSharedSecret(name)
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

// policyError is the problem of a reference that the app may not use; instead is
// how it gets a value of its own.
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

// readOwnSecret reads a file of the app's own folder of secrets.
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
	// Some file systems find a folder by a name in another case.
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

// lookUpSharedSecret reads a file of the folder of secrets itself, or else a variable of
// the host.
func (s *source) lookUpSharedSecret(name string) (string, error) {
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
		return nil, fmt.Errorf("cannot read the folder of secrets: %s", formatOSError(err))
	}
	return root, nil
}

// readSecret reads a secret of a folder. It follows links as Kubernetes makes
// them: as long as they stay in the folder. The line feed that ends a file is no
// part of it.
func readSecret(root *os.Root, name string) (string, error) {
	f, err := openRegular(root.OpenFile, name)
	if err != nil {
		return "", secretError(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", secretError(name, err)
	case len(b) > maxSecret:
		return "", fmt.Errorf("the secret %s is larger than 64 KiB", name)
	case !utf8.Valid(b):
		return "", fmt.Errorf("the secret %s is no text in UTF-8", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func secretError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("cannot read the secret %s: %s", name, formatOSError(err))
}

// readTextFile reads a text of the app, by its path from the app's folder.
func (s *source) readTextFile(given string) (string, error) {
	file := path.Clean(given)
	if strings.Contains(given, "\\") {
		return "", fmt.Errorf("%s has a \\: %s", given, slashHint)
	}
	if escapesFolder(given) {
		return "", fmt.Errorf("%s leads out of the app's folder", given)
	}
	if strings.EqualFold(path.Base(file), dotenvFile) {
		return "", fmt.Errorf("%s holds secrets: write ${env:NAME} or ${secret:NAME} for one of its variables", given)
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
	case len(b) > maxFile:
		return "", fmt.Errorf("%s is larger than 4 MiB", s.displayPath(file))
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is no text in UTF-8", s.displayPath(file))
	}
	return string(b), nil
}

// slashHint is for paths as Windows writes them.
const slashHint = `write / instead of \`

// addSlashHint adds slashHint to what is said of such a path.
func addSlashHint(d spec.Diagnostic, given string) spec.Diagnostic {
	if strings.Contains(given, "\\") {
		return d.WithHint("%s: %s", slashHint, strings.ReplaceAll(given, "\\", "/"))
	}
	return d
}

// escapesFolder says whether a path leaves the folder that it starts in, or may do so
// where \ stands between folders.
func escapesFolder(given string) bool {
	file := path.Clean(given)
	return path.IsAbs(given) || strings.Contains(given, "\\") || file == ".." || strings.HasPrefix(file, "../")
}

// readDotenv reads the .env beside the app: NAME=value lines, with comments,
// quotes and a leading export.
func (s *source) readDotenv() (map[string]string, error) {
	b, err := s.readWithinBudget(dotenvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %s", s.displayPath(dotenvFile), formatOSError(err))
	}
	vars := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		vars[strings.TrimSpace(name)] = unquoteValue(strings.TrimSpace(value))
	}
	return vars, nil
}

func unquoteValue(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	v, _, _ = strings.Cut(v, " #")
	return strings.TrimSpace(v)
}
