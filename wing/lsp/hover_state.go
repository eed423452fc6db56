package lsp

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// maxPlaces limits the places of one kind that a hover lists.
const maxPlaces = 10

// hoverName answers textDocument/hover: a state key with its places, or else the word at the cursor.
func (s *Server) hoverName(ctx context.Context, m *message) (any, error) {
	var p positionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), p.Position)
	if err == nil && q != nil && q.found && q.use.Kind == loader.StateNames {
		known := loader.StateKey{}
		if a := s.apps[q.dir]; a != nil && a.outline != nil {
			i := slices.IndexFunc(a.outline.State, func(k loader.StateKey) bool { return k.Name == q.use.Name })
			if i >= 0 {
				known = a.outline.State[i]
			}
		}
		return hoverResult{*newMarkdown(describeStateKey(q, known))}, nil
	}
	return s.atCursor(s.hoverAtCursor)(ctx, m)
}

// describeStateKey describes a state key: its scope, type and default, and what writes and reads it.
func describeStateKey(q *nameQuery, known loader.StateKey) string {
	var b strings.Builder
	fmt.Fprintf(&b, "state key **%s**", q.use.Name)
	if known.Type != "" {
		fmt.Fprintf(&b, " (%s)", known.Type)
	}
	prefix, _, _ := strings.Cut(q.use.Name, ":")
	switch prefix {
	case "user":
		b.WriteString(", shared by all sessions of a user")
	case "app":
		b.WriteString(", shared by all sessions of the app")
	case "temp":
		b.WriteString(", for one turn")
	}
	if known.Doc != "" {
		b.WriteString("\n\n" + known.Doc)
	}
	if known.Default != "" {
		fmt.Fprintf(&b, "\n\nDefault: `%s`.", known.Default)
	}
	all := q.table.Find(loader.StateNames, q.use.Name)
	for _, list := range []struct {
		title, none string
		role        loader.NameRole
	}{{"Declared", "", loader.NameDeclared}, {"Written", "Nothing in the app writes it.", loader.NameWritten}, {"Read", "Nothing in the app reads it.", loader.NameUsed}} {
		places := listPlaces(q, all, list.role)
		switch {
		case len(places) > maxPlaces:
			fmt.Fprintf(&b, "\n\n%s: %s and %d more.", list.title, strings.Join(places[:maxPlaces], ", "), len(places)-maxPlaces)
		case len(places) > 0:
			fmt.Fprintf(&b, "\n\n%s: %s.", list.title, strings.Join(places, ", "))
		case list.none != "":
			b.WriteString("\n\n" + list.none)
		}
	}
	return b.String()
}

// listPlaces returns where a role's uses are, as file:line, and by which field a key is written.
func listPlaces(q *nameQuery, uses []loader.NameUse, role loader.NameRole) []string {
	var places []string
	for _, u := range uses {
		is := u.Role
		if u.Whole != (spec.Range{}) {
			is = loader.NameDeclared // one with a default counts as written
		}
		if is != role {
			continue
		}
		text := q.table.Text(u.File)
		place := fmt.Sprintf("%s:%d", u.File, 1+bytes.Count(text[:min(u.Range.Start, len(text))], []byte("\n")))
		if role == loader.NameWritten && u.Detail != "" {
			place += " (" + u.Detail + ")"
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}
