package toolconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A ValueTemplate is a string with placeholders. A single placeholder without
// other text renders to the value itself: numbers stay numbers.
type ValueTemplate struct {
	parts         []templatePart
	isSingleValue bool
}

// A templatePart is either text with placeholders or a secret without any.
type templatePart struct {
	paths  *template.Paths
	secret string
}

// CompileValue compiles a string with placeholders; p are the parameters that they may name.
func CompileValue(src string, p *tool.Params) (*ValueTemplate, error) {
	paths, err := template.ParsePaths(src)
	if err != nil {
		return nil, err
	}
	if err := p.CheckPlaceholders(paths.Refs()); err != nil {
		return nil, err
	}
	return &ValueTemplate{parts: []templatePart{{paths: paths}}, isSingleValue: IsSinglePlaceholder(src, paths.Refs())}, nil
}

// compileSecret compiles the text between the secrets: braces inside a secret
// are literal.
func compileSecret(src spec.Secret, p *tool.Params) (*ValueTemplate, error) {
	parts := src.Parts()
	if len(parts) < 2 && src.Value == src.Reveal() {
		return CompileValue(src.Value, p)
	}
	t := &ValueTemplate{}
	for _, part := range parts {
		if part.Hidden {
			t.parts = append(t.parts, templatePart{secret: part.Text})
			continue
		}
		v, err := CompileValue(part.Text, p)
		if err != nil {
			return nil, ShiftError(err, part.Offset)
		}
		t.parts = append(t.parts, v.parts...)
	}
	return t, nil
}

// IsSinglePlaceholder reports whether a string is one placeholder without other text.
func IsSinglePlaceholder(src string, refs []template.Ref) bool {
	if len(refs) != 1 {
		return false
	}
	return src == "{"+refs[0].Name+"}" || src == "{"+refs[0].Name+"?}"
}

// A NamedTemplate is a template with the name of its header, parameter or variable.
type NamedTemplate struct {
	Name string
	Text *ValueTemplate
}

// CompileTexts sorts the templates by name, so that requests are deterministic.
func (c *Compiler) CompileTexts(src map[string]spec.Secret) []NamedTemplate {
	texts := make([]NamedTemplate, 0, len(src))
	for _, name := range slices.Sorted(maps.Keys(src)) {
		v, err := compileSecret(src[name], c.Params)
		if err != nil {
			c.AddDiagnostic(tool.NewTemplateDiagnostic(src[name].Text, "placeholder", err))
		}
		texts = append(texts, NamedTemplate{name, v})
	}
	return texts
}

// SecretsOf returns the secrets in the texts.
func SecretsOf(all ...map[string]spec.Secret) []string {
	var secrets []string
	for _, texts := range all {
		for _, text := range texts {
			for _, p := range text.Parts() {
				if p.Hidden {
					secrets = append(secrets, p.Text)
				}
			}
		}
	}
	return secrets
}

// Placeholders lists the placeholders in all parts.
func (t *ValueTemplate) Placeholders() []template.Ref {
	var all []template.Ref
	for _, p := range t.parts {
		if p.paths != nil {
			all = append(all, p.paths.Refs()...)
		}
	}
	return all
}

// RenderValue returns the value for a call. The second result is false for a
// single optional placeholder without a value.
func (t *ValueTemplate) RenderValue(call *tool.Call) (any, bool, error) {
	find := ValueLookup(call)
	if !t.isSingleValue {
		s, err := t.renderString(find)
		return s, true, ExplainMissing(err)
	}
	ref := t.Placeholders()[0]
	v, ok := find(ref.Name)
	if !ok && !ref.Optional {
		return nil, false, ExplainMissing(&template.MissingError{Ref: ref})
	}
	return v, ok, nil
}

func (t *ValueTemplate) renderString(find func(string) (any, bool)) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.paths == nil {
			b.WriteString(p.secret)
			continue
		}
		s, err := p.paths.Render(find, nil)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// ExplainMissing replaces ADK's error for a missing value with one that names
// the fix.
func ExplainMissing(err error) error {
	if missing := (*template.MissingError)(nil); errors.As(err, &missing) {
		name := missing.Ref.Name
		return fmt.Errorf("%s has no value; if it is optional, write {%s?}", name, name)
	}
	return err
}

// ShiftError adds offset to the position of a template error.
func ShiftError(err error, offset int) error {
	if te := (*template.Error)(nil); errors.As(err, &te) {
		return &template.Error{Offset: offset + te.Offset, Msg: te.Msg, Name: te.Name, Near: te.Near, Hint: te.Hint}
	}
	return err
}

// CompileText compiles a string with placeholders. It returns nil if it is invalid, which is
// reported.
func (c *Compiler) CompileText(src spec.Text) *ValueTemplate {
	t, err := CompileValue(src.Value, c.Params)
	if err != nil {
		c.AddDiagnostic(tool.NewTemplateDiagnostic(src, "placeholder", err))
	}
	return t
}

// StartsWithPlaceholder reports whether a placeholder's value begins the text.
func (t *ValueTemplate) StartsWithPlaceholder() bool {
	refs := t.Placeholders()
	return len(refs) > 0 && refs[0].Offset == 0
}
