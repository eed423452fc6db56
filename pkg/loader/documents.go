package loader

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

func (s *source) hasOverlay(name string) bool { return name != "" && s.fileExists(OverlayFile(name)) }

// OverlayFile returns the name of the overlay of app.yaml for an environment.
func OverlayFile(env string) string { return "app." + env + ".yaml" }

// readAppDocument reads app.yaml with its overlay, either of which may be missing.
// Values that the overlay replaces are not expanded: they may name variables that only
// other environments have.
func (s *source) readAppDocument(overlay string) (*spec.Node, spec.Diagnostics) {
	if !s.hasOverlay(overlay) {
		return s.readDocument(appFile)
	}
	patch, ds := s.parseFile(OverlayFile(overlay))
	if ds.HasErrors() {
		return nil, ds
	}
	var base *spec.Node
	if s.fileExists(appFile) {
		var more spec.Diagnostics
		base, more = s.parseFile(appFile)
		if ds = append(ds, more...); ds.HasErrors() {
			return nil, ds
		}
	}
	if patch.Kind != spec.Mapping && !patch.IsNull() {
		return nil, append(ds, patch.Errorf("type", "an overlay must be a mapping, which is merged into app.yaml"))
	}
	if base == nil || !patch.IsNull() {
		base = spec.Patch(base, patch)
	}
	return base, append(ds, s.fillReferences(base)...)
}

// readDocument reads a YAML file of the app and expands its references. A file that
// many agents use is read once, and its warnings are reported once.
func (s *source) readDocument(file string) (*spec.Node, spec.Diagnostics) {
	if d, ok := s.filled[file]; ok {
		return d.node, d.ds
	}
	n, ds := s.parseFile(file)
	if n == nil || ds.HasErrors() {
		s.filled[file] = filledDocument{nil, ds[:1:1]}
		return nil, ds
	}
	s.filled[file] = filledDocument{node: n}
	return n, append(ds, s.fillReferences(n)...)
}

// parseFile parses a YAML file of the app without expanding references.
func (s *source) parseFile(file string) (*spec.Node, spec.Diagnostics) {
	b, err := s.readWithinBudget(file)
	if err == nil {
		err = s.budget.consume(0, spec.EstimateNodes(b))
	}
	if isLimitError(err) {
		return nil, spec.Diagnostics{s.budget.exceeded.toDiagnostic(s.displayDir)}
	}
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: s.displayPath(file)}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)}}
	}
	got := getOrMake(s.cache, parsedKey{file, sha256.Sum256(b)}, func() (parsedDocument, bool) {
		n, ds := spec.Parse(s.displayPath(file), b)
		if n != nil && !ds.HasErrors() {
			ds = append(ds, checkCredentials(n)...) // before references are expanded
		}
		// Documents with references are parsed again, because expansion modifies them.
		return parsedDocument{n, ds}, n != nil && !hasReferences(n)
	})
	s.documents[file] = got.node
	return got.node, slices.Clip(got.ds)
}

// parsedDocument is a document and its problems.
type parsedDocument struct {
	node *spec.Node
	ds   spec.Diagnostics
}

// hasReferences reports whether there may be references to expand.
func hasReferences(n *spec.Node) bool {
	return strings.Contains(n.Value, "${") || slices.ContainsFunc(n.Items, hasReferences) ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return hasReferences(e.Value) })
}

type parsedKey struct {
	file string
	sum  [sha256.Size]byte
}

// credentialPattern matches the API keys of known services: Google, keys with sk-,
// GitHub, Slack, Amazon, and private keys.
var credentialPattern = regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b|\bsk-[0-9A-Za-z_-]{24,}|\bgh[pousr]_[0-9A-Za-z]{36}\b|` +
	`\bxox[abprs]-[0-9A-Za-z-]{20,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// minCredentialLength is the length of the shortest match of credentialPattern.
const minCredentialLength = 20

// checkCredentials warns of credentials in a file. The diagnostic omits the source
// line, because diagnostics are logged and served. A value that aliases repeat is
// checked once.
func checkCredentials(n *spec.Node) spec.Diagnostics {
	c := credentialCheck{checked: map[spec.Pos]bool{}}
	c.checkNode(n)
	return c.ds
}

// credentialCheck is the state of one pass over a document.
type credentialCheck struct {
	// checked are the positions of the scalars that were checked; aliases share a
	// position.
	checked map[spec.Pos]bool
	ds      spec.Diagnostics
}

func (c *credentialCheck) checkNode(n *spec.Node) {
	for _, e := range n.Entries {
		c.checkNode(e.Value)
	}
	for _, item := range n.Items {
		c.checkNode(item)
	}
	if n.Kind != spec.Scalar || len(n.Value) < minCredentialLength || c.checked[n.Pos] {
		return
	}
	c.checked[n.Pos] = true
	if at := credentialPattern.FindStringIndex(n.Value); at != nil {
		d := n.Text().Warnf(at[0], "key-in-file", "possible credential in a file").
			WithHint("store it as a secret, and write ${secret:NAME}")
		d.Source = ""
		c.ds = append(c.ds, d)
	}
}

// dropFollowUpProblems removes problems of scalars that only follow from an unexpanded
// reference, which is already reported.
func (s *source) dropFollowUpProblems(ds spec.Diagnostics) spec.Diagnostics {
	if len(s.unfilled) == 0 {
		return ds
	}
	return slices.DeleteFunc(ds, func(d spec.Diagnostic) bool {
		return !slices.ContainsFunc(s.unfilledProblems, d.Equal) && slices.ContainsFunc(s.unfilled, func(u unfilledScalar) bool { return u.containsPos(d.Pos) })
	})
}

// containsPos reports whether a position is in the scalar. For a multi-line scalar,
// only the start counts: problems in its other lines are reported separately.
func (u unfilledScalar) containsPos(at spec.Pos) bool {
	oneLine := u.from.Line == u.to.Line && at.Line == u.from.Line && u.from.Col <= at.Col && at.Col <= u.to.Col
	return at.File == u.from.File && (oneLine || at == u.from)
}
