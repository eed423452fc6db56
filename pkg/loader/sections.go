package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A SectionEnv has what a section of app.yaml is built from.
type SectionEnv struct {
	// App is the app's name.
	App string
	// Root is the compiled agent tree.
	Root runtime.Agent
	// Skills are those that the app's tools use, sorted by name.
	Skills []tool.Skill
	// AddEntry adds one of the app's entries, see [runtime.NewToolEntry].
	AddEntry func(*runtime.ToolNode)
	// Reload is how changes in the app's files are published; nil for the defaults.
	Reload *runtime.ReloadOptions
	// HTTP reaches the addresses that the host grants to the app. It is nil for a section whose config
	// names none (see [tool.AddressConfig]).
	HTTP *http.Client
	// Logger is never nil.
	Logger *slog.Logger
}

// A section is a decoded section of app.yaml.
type section = spec.Plan[SectionEnv, any]

// documentTypes returns two structs for app.yaml: one to decode into, which keeps the sections as
// nodes, and one with the sections' fields for schemas. The document is their first field, and the
// sections follow in the order of the kinds.
func documentTypes(sections spec.Kinds[SectionEnv, any]) (decoded, described reflect.Type) {
	document := reflect.StructField{Name: "Document", Type: reflect.TypeFor[document](), Tag: `yaml:",inline"`}
	nodes, configs := []reflect.StructField{document}, []reflect.StructField{document}
	for i, k := range sections {
		field := reflect.StructField{
			Name: "Section" + strconv.Itoa(i), Type: reflect.TypeFor[*spec.Node](),
			Tag: reflect.StructTag(fmt.Sprintf("yaml:%q doc:%q", k.Name, k.Doc)),
		}
		nodes = append(nodes, field)
		field.Type = reflect.PointerTo(k.ConfigType())
		configs = append(configs, field)
	}
	return reflect.StructOf(nodes), reflect.StructOf(configs)
}

// decodeDocument decodes app.yaml and checks its sections.
func (r *resolver) decodeDocument(n *spec.Node) spec.Diagnostics {
	kinds := r.loader.kinds.Sections
	decoded, _ := documentTypes(kinds)
	all := reflect.New(decoded)
	ds := spec.Decode(n, all.Interface())
	r.app.doc = all.Elem().Field(0).Interface().(document)
	for i, k := range kinds {
		at := all.Elem().Field(i + 1).Interface().(*spec.Node)
		if at == nil {
			continue
		}
		plan, problems := k.Decode(at)
		ds = append(ds, plan.Check(problems)...)
		ds = append(ds, r.checkPolicy(plan.Config)...)
		r.app.sections = append(r.app.sections, plan)
	}
	return ds
}

// buildSections returns what the sections of app.yaml were built into, by their keys, with the entries
// that they add, and reports problems at their places.
func (c *compiler) buildSections(ctx context.Context, root runtime.Agent) (built map[string]any, entries []*runtime.ToolNode, err error) {
	built = map[string]any{}
	addEntry := func(entry *runtime.ToolNode) { entries = append(entries, entry) }
	for _, s := range c.app.sections {
		env := SectionEnv{
			App: c.src.name, Root: root, Skills: c.app.listSkills(), AddEntry: addEntry, Reload: c.app.doc.reloadOptions(), Logger: c.loader.opts.Logger,
		}
		if addresses := configAddresses(s.Config); len(addresses) > 0 {
			client, end := c.acquireToolClient(addresses)
			c.held.add(end)
			env.HTTP = client
		}
		value, err := s.Build(ctx, env)
		if err != nil {
			return nil, nil, placeSectionError(s, err)
		}
		built[s.Kind.Name] = value
	}
	return built, entries, nil
}

// listSkills returns the skills that the tools use.
func (a *appModel) listSkills() []tool.Skill {
	return slices.SortedFunc(maps.Values(a.skills), func(x, y tool.Skill) int {
		return cmp.Or(strings.Compare(x.Content().Name, y.Content().Name), strings.Compare(x.Content().Folder, y.Content().Folder))
	})
}

// placeSectionError places an error without a position at its section.
func placeSectionError(s section, err error) error {
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		return ds
	}
	return spec.Diagnostics{s.Node.Errorf(s.Kind.Name, "%s", err)}
}
