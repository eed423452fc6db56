package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// An Instruction is the instruction of an agent, as a file of its app has it.
type Instruction struct {
	// Agent is the name of the agent.
	Agent string
	// File is the path of the file in the app's folder, Source its content.
	File   string
	Source []byte
	// Text is written: references such as ${env:NAME} are not replaced.
	Text string
	Pos  spec.Pos
}

// FindInstruction returns the instruction of an agent, that of the root agent for an empty
// name. The diagnostics are those of the app. Without an app that loads, the instruction
// and the error are nil.
func (l *Loader) FindInstruction(ctx context.Context, dir, agent string) (*Instruction, spec.Diagnostics, error) {
	var found *Instruction
	var err error
	ds := l.inspectApp(ctx, dir, func(r *resolver) { found, err = r.findInstruction(agent) })
	return found, ds, err
}

func (r *resolver) findInstruction(agent string) (*Instruction, error) {
	var at *resolvedAgent
	var names []string
	r.app.root.visitTree(func(p *resolvedAgent) {
		if at == nil && (p.name == agent || agent == "") {
			at = p
		}
		if n := p.plan.Node.Get("instruction"); n != nil && n.Kind == spec.Scalar {
			names = append(names, p.name)
		}
	})
	slices.Sort(names)
	others := "; agents with one are " + strings.Join(slices.Compact(names), ", ")
	if len(names) == 0 {
		others = ""
	}
	if at == nil {
		return nil, fmt.Errorf("unknown agent %q%s", agent, others)
	}
	n := at.plan.Node.Get("instruction")
	if computed := at.plan.Node.Get("instruction_provider"); !computed.IsNull() {
		return nil, fmt.Errorf("agent %s computes its instruction by instruction_provider in %s%s", at.name, computed.Pos, others)
	}
	if n.IsNull() || n.Kind != spec.Scalar {
		return nil, fmt.Errorf("agent %s has no instruction%s", at.name, others)
	}
	for file, source := range r.src.readFiles {
		if r.src.displayPath(file) != n.Pos.File {
			continue
		}
		if escapesFolder(file) {
			return nil, fmt.Errorf("the instruction of agent %s is in %s, outside of the app's folder", at.name, n.Pos)
		}
		if text, ok := spec.StringAt(source, n.Pos); ok {
			return &Instruction{at.name, file, source, text, n.Pos}, nil
		}
	}
	return nil, fmt.Errorf("the instruction of agent %s is not a string of a file of the app", at.name)
}

// Replace returns the file with another text of the instruction; see [spec.ReplaceString].
func (i *Instruction) Replace(text string) ([]byte, error) {
	return spec.ReplaceString(i.Source, i.Pos, text)
}

// Write replaces the file with edited content, atomically. It is an error if the file has
// changed since it was read, or is a link.
func (i *Instruction) Write(dir string, edited []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = replaceFile(root, i.File, i.Source, edited)
	if errors.Is(err, errChanged) {
		err = errors.New("the file changed since it was read")
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", i.File, err)
	}
	return nil
}
