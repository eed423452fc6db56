package evalcommand

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// generateFlags are the evalset generate flags.
type generateFlags struct {
	load            command.LoadFlags
	config, persona string
	json            bool
	generation      eval.GenerationConfig
}

func newEvalSetGenerateCommand(env command.Env) *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate DIR NAME",
		Short: "Generate scenarios for an app with a model, and add them to an eval set",
		Long: `Generate asks a model for scenarios from the instructions, tools and sub-agents of the
app, and adds a case for each to the eval set, which is created if it does not exist. The
model is one of the app, or another by its name. The initial state of the sessions has an
empty value for each key that an instruction requires.`,
		Args:    command.RequireArgs(2, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.generateCases(cmd.Context(), env, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	f.load.RegisterFlags(env, flags)
	command.RegisterOutput(flags, &f.json, false)
	flags.StringVar(&f.config, "config", "", "file with count, model_name, generation_instruction and environment_context, in JSON as for adk eval_set generate_eval_cases")
	flags.IntVar(&f.generation.Count, "count", 5, "how many scenarios to generate")
	flags.StringVar(&f.generation.Model, "model", eval.DefaultJudgeModel, "model that writes the scenarios")
	flags.StringVar(&f.generation.Instruction, "instruction", "", "which scenarios to write (default: everything that the agent can do)")
	flags.StringVar(&f.generation.Environment, "environment", "", "what exists around the agent, such as the data that its tools find")
	flags.StringVar(&f.persona, "persona", "", "prebuilt persona for the simulated users: EXPERT, NOVICE or EVALUATOR (default: none)")
	cmd.MarkFlagsMutuallyExclusive("config", "count")
	cmd.MarkFlagsMutuallyExclusive("config", "model")
	cmd.MarkFlagsMutuallyExclusive("config", "instruction")
	cmd.MarkFlagsMutuallyExclusive("config", "environment")
	return cmd
}

func (f *generateFlags) generateCases(ctx context.Context, env command.Env, dir, name string) error {
	if f.config != "" {
		err := readJSON(env, f.config, func(src []byte) error {
			c, err := eval.ReadGenerationConfig(filepath.ToSlash(f.config), src)
			f.generation = *c
			return err
		})
		if err != nil {
			return err
		}
	}
	if n := f.generation.Count; n < 1 || n > eval.MaxScenarios {
		return fmt.Errorf("--count must be between 1 and %d, got %d", eval.MaxScenarios, n)
	}
	persona, err := f.findPersona()
	if err != nil {
		return err
	}
	s, err := openSetFile(dir, name)
	if err != nil {
		return err
	}
	defer s.root.Close()
	session := s.defaultSession()
	scenarios, err := f.askModel(ctx, env, dir, session)
	if len(scenarios) == 0 && err != nil {
		return err
	}
	for _, scenario := range scenarios {
		scenario.Persona = persona
	}
	s.addScenarios(scenarios, session)
	if writeErr := s.writeSet(env, f.json); writeErr != nil {
		return writeErr
	}
	return err
}

func (f *generateFlags) findPersona() (*eval.Persona, error) {
	if f.persona == "" {
		return nil, nil
	}
	var ids []string
	for _, p := range eval.Personas() {
		if p.ID == f.persona {
			return p, nil
		}
		ids = append(ids, p.ID)
	}
	return nil, fmt.Errorf("--persona must be one of %s, got %q", strings.Join(ids, ", "), f.persona)
}

// askModel loads the app and asks the model for scenarios. It sets the session's state.
func (f *generateFlags) askModel(ctx context.Context, env command.Env, dir string, session *eval.SessionInput) ([]*eval.Scenario, error) {
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return nil, err
	}
	l := env.NewLoader(opts)
	app, ds := l.Load(ctx, dir)
	if err := env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if app == nil {
		return nil, &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", dir)}
	}
	defer app.Close()
	models, release, ds := l.OpenModels(ctx, dir, []string{f.generation.Model})
	if err := env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if models == nil {
		return nil, &command.ExitError{Code: command.ExitProblems, Err: errors.New("the model has problems")}
	}
	defer release()
	session.State = evalrun.ListStateKeys(app)
	scenarios, err := eval.GenerateScenarios(ctx, evalrun.NewGenerator(models[f.generation.Model]), evalrun.DescribeApp(app), &f.generation)
	if err != nil {
		return scenarios, command.FailWith(err)
	}
	return scenarios, nil
}
