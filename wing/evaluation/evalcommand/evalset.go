package evalcommand

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/limit"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

func newEvalSetCommand(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evalset",
		Short: "Create eval sets, and generate their cases with a model",
		Long: `Evalset writes eval sets of ADK, NAME.evalset.json in the folder of an app, as adk
eval_set does. Their cases have scenarios: a first message, and the plan of a simulated
user. It does not change sets in YAML.`,
	}
	command.AddSubcommands(cmd, newEvalSetCreateCommand(env), newEvalSetAddCommand(env), newEvalSetGenerateCommand(env), newEvalSetPersonasCommand(env))
	return cmd
}

func newEvalSetCreateCommand(env command.Env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:     "create DIR NAME",
		Short:   "Create an empty eval set",
		Args:    command.RequireArgs(2, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := openSetFile(args[0], args[1])
			if err != nil {
				return err
			}
			defer s.root.Close()
			if s.exists {
				return command.FailWithf("eval set %q already exists: %s", s.name, s.filePath())
			}
			return s.writeSet(env, json)
		},
	}
	command.RegisterOutput(cmd.Flags(), &json, false)
	return cmd
}

func newEvalSetAddCommand(env command.Env) *cobra.Command {
	var scenarios, session string
	var json bool
	cmd := &cobra.Command{
		Use:     "add DIR NAME --scenarios FILE",
		Short:   "Add a case for each scenario in a file to an eval set",
		Args:    command.RequireArgs(2, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(_ *cobra.Command, args []string) error {
			if scenarios == "" {
				return errors.New("--scenarios is required: a file such as {\"scenarios\": [{\"starting_prompt\": \"…\", \"conversation_plan\": \"…\"}]}")
			}
			s, err := openSetFile(args[0], args[1])
			if err != nil {
				return err
			}
			defer s.root.Close()
			if !s.exists {
				return command.FailWithf("eval set %q not found: create it with agenthost evalset create %s %s", s.name, s.dir, s.name)
			}
			found, input := &eval.Scenarios{}, s.defaultSession()
			if err := readJSON(env, scenarios, func(src []byte) error { return eval.Decode(filepath.ToSlash(scenarios), src, found) }); err != nil {
				return err
			}
			if session != "" {
				if err := readJSON(env, session, func(src []byte) (err error) {
					input, err = eval.ReadSession(filepath.ToSlash(session), src)
					return err
				}); err != nil {
					return err
				}
			}
			if len(found.Scenarios) == 0 {
				return command.FailWithf("%s has no scenarios", scenarios)
			}
			s.addScenarios(found.Scenarios, input)
			return s.writeSet(env, json)
		},
	}
	command.RegisterOutput(cmd.Flags(), &json, false)
	cmd.Flags().StringVar(&scenarios, "scenarios", "", "file with the scenarios, in JSON as for adk eval_set add_eval_case")
	cmd.Flags().StringVar(&session, "session", "", "JSON file with the app, user and initial state for the sessions (default: the user test_user_id without state)")
	return cmd
}

func newEvalSetPersonasCommand(env command.Env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:     "personas",
		Short:   "List the prebuilt personas for simulated users",
		Args:    command.RequireArgs(0, 0),
		PreRunE: command.ApplyEnvironment,
		RunE: func(*cobra.Command, []string) error {
			if json {
				return env.PrintJSON(eval.Personas())
			}
			table := terminal.NewTable(terminal.Column{Title: "ID", Whole: true}, terminal.Column{Title: "DESCRIPTION"}, terminal.Column{Title: "BEHAVIORS"})
			for _, p := range eval.Personas() {
				var traits []string
				for _, b := range p.Behaviors {
					traits = append(traits, b.Name)
				}
				table.AddRow(p.ID, p.Description, strings.Join(traits, ", "))
			}
			return command.FailWith(table.Print(env.Out))
		},
	}
	command.RegisterOutput(cmd.Flags(), &json, false)
	return cmd
}

// A setFile is an ADK eval set in an app's folder.
type setFile struct {
	root      *os.Root
	dir, name string
	exists    bool
	set       *eval.Set
	// cases are printed once the set is written.
	cases []caseChange
}

// A caseChange is a case of a scenario. Added is false if the set had it already.
type caseChange struct {
	ID    string `json:"id"`
	Added bool   `json:"added"`
}

// openSetFile reads a set, which need not exist. The caller closes its root.
func openSetFile(dir, name string) (*setFile, error) {
	if err := command.CheckApp(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, command.FailWith(err)
	}
	s := &setFile{root: root, dir: dir, name: name, set: &eval.Set{ID: name, Name: name, Cases: []*eval.Case{}, CreationTimestamp: unixSeconds(time.Now())}}
	if err := s.readSet(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (s *setFile) filePath() string {
	return filepath.ToSlash(filepath.Join(s.dir, s.name+eval.SetSuffix))
}

func (s *setFile) readSet() error {
	if err := eval.CheckPathSegment(s.name); err != nil {
		return err
	}
	for _, suffix := range evalfile.YAMLSuffixes() {
		if _, err := s.root.Lstat(s.name + suffix); err == nil {
			return command.FailWithf("eval set %q is in YAML: add its cases to %s%s in an editor", s.name, s.name, suffix)
		}
	}
	f, err := s.root.Open(s.name + eval.SetSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return eval.CheckNewSetID(s.name)
	}
	if err != nil {
		return command.FailWith(err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, int64(limit.EvalFile.Bytes)+1))
	if err != nil {
		return command.FailWith(err)
	}
	set, err := eval.ReadSet(s.filePath(), src, eval.ReproducibleOptions(s.name))
	if err != nil {
		return &command.ExitError{Code: command.ExitProblems, Err: err}
	}
	s.set, s.exists = set, true
	return nil
}

func (s *setFile) defaultSession() *eval.SessionInput {
	return &eval.SessionInput{App: loader.AppName(s.dir), User: "test_user_id"}
}

// addScenarios adds a case for each scenario that the set does not have.
func (s *setFile) addScenarios(scenarios []*eval.Scenario, session *eval.SessionInput) {
	for _, scenario := range scenarios {
		id := scenario.CaseID()
		if s.set.Case(id) != nil {
			s.cases = append(s.cases, caseChange{id, false})
			continue
		}
		s.set.Cases = append(s.set.Cases, &eval.Case{ID: id, Scenario: scenario, Session: session, CreationTimestamp: unixSeconds(time.Now())})
		s.cases = append(s.cases, caseChange{id, true})
	}
}

// writeSet writes the set, and prints what has changed.
func (s *setFile) writeSet(env command.Env, json bool) error {
	if err := evalfile.WriteSet(s.root, s.name, s.set); err != nil {
		return command.FailWith(err)
	}
	if json {
		return env.PrintJSON(map[string]any{"set": s.name, "file": s.filePath(), "created": !s.exists, "cases": append([]caseChange{}, s.cases...)})
	}
	if !s.exists {
		fmt.Fprintf(env.Out, "Eval set '%s' created for app '%s'.\n", s.name, loader.AppName(s.dir))
	}
	for _, c := range s.cases {
		if c.Added {
			fmt.Fprintf(env.Out, "Eval case '%s' added to eval set '%s'.\n", c.ID, s.name)
		} else {
			fmt.Fprintf(env.Out, "Eval case '%s' already exists in eval set '%s', skipped adding.\n", c.ID, s.name)
		}
	}
	return nil
}

// readJSON reads a file and decodes it. Its problems are printed with their places.
func readJSON(env command.Env, file string, decode func(src []byte) error) error {
	src, err := readLimitedFile(file)
	if err != nil {
		return command.FailWith(err)
	}
	if err := decode(src); err != nil {
		return planFailure(env, err)
	}
	return nil
}

func readLimitedFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit.EvalFile.Bytes)+1))
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
