package evalcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/textdiff"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/optimize"
)

// optimizeFlags are the flags for optimize.
type optimizeFlags struct {
	load                       command.LoadFlags
	plan                       evalrun.PlanOptions
	agent, model               string
	validation                 []string
	sampler, optimizer         string
	iterations, batch          int
	maxCases, maxCalls         int
	maxCost                    float64
	seed                       uint64
	runs, parallel             int
	timeout                    time.Duration
	output                     string
	write                      bool
	samplerConfig              *optimize.SamplerConfig
	optimizerConfig            *optimize.OptimizerConfig
	trainCases, validationSets []*eval.Selection
}

func newOptimizeCommand(env command.Env) *cobra.Command {
	var f optimizeFlags
	cmd := &cobra.Command{
		Use:   "optimize DIR [SET[:CASE,CASE]...]",
		Short: "Improve an instruction by eval sets",
		Long: `Optimize lets a model rewrite the instruction of an agent until more eval cases pass, and
prints the change of its file as a diff. It writes the file only with --write. DIR is an
app; SET are the sets to learn from, as for eval (default: all). A proposal counts if more
cases of --validation pass (default: of the same sets) than with the present instruction.
It keeps all placeholders, and has no new problem that check reports.

The scores are printed on stderr. The exit status is 0 if a better instruction was found, 1
if none was found or a file has problems, and 3 if there is no case to run, a model fails, or
the command is interrupted.`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return optimizeApp(cmd.Context(), env, &f, args)
		},
	}
	flags := cmd.Flags()
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.agent, "agent", "", "agent whose instruction is improved (default: the root agent)")
	flags.StringArrayVar(&f.validation, "validation", nil, "SET or SET:CASE,CASE whose score decides; repeatable (default: the sets to learn from)")
	flags.StringVar(&f.model, "model", "", "model that proposes instructions: a name under models:, or PROVIDER/NAME (default: "+eval.DefaultJudgeModel+")")
	flags.StringSliceVar(&f.plan.Metrics, "metrics", nil, "metrics by name, each with an optional threshold, as for eval")
	flags.StringVar(&f.plan.Config, "config", "", "file with metric criteria (default: the test_config.json next to each set)")
	flags.StringVar(&f.plan.Judge, "judge", "", "model for judges, simulated users and simulated tools whose config names none (default: "+eval.DefaultJudgeModel+")")
	flags.StringVar(&f.sampler, "sampler-config", "", "ADK sampler config, instead of SET, --validation, --metrics and --config")
	flags.StringVar(&f.optimizer, "optimizer-config", "", "ADK optimizer config; flags override it")
	flags.IntVar(&f.iterations, "iterations", 10, "maximum number of proposals")
	flags.IntVar(&f.batch, "batch", optimize.DefaultBatchSize, "number of training cases that each proposal learns from")
	flags.IntVar(&f.maxCases, "max-cases", optimize.DefaultMaxCaseRuns, "maximum number of case runs")
	flags.IntVar(&f.maxCalls, "max-calls", 0, "maximum number of model calls, including the app's (default: no limit)")
	flags.Float64Var(&f.maxCost, "max-cost", 0, "maximum cost in US dollars for models with a price (default: no limit)")
	flags.Uint64Var(&f.seed, "seed", 0, "seed for the choice of training cases and parents")
	flags.IntVar(&f.runs, "runs", 1, "how often each case runs; it passes by the means over all runs")
	flags.IntVar(&f.parallel, "parallel", 4, "how many cases run at the same time")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "maximum duration of a case's conversation")
	flags.StringVar(&f.output, "output", "diff", "output format: diff, or json with all scores and instructions")
	flags.BoolVar(&f.write, "write", false, "write the better instruction to its file")
	return cmd
}

func (f *optimizeFlags) validateFlags(cmdArgs []string) error {
	switch {
	case f.output != "diff" && f.output != "json":
		return fmt.Errorf("--output must be diff or json, got %q", f.output)
	case f.iterations < 1 || f.iterations > 1000:
		return fmt.Errorf("--iterations must be between 1 and 1000, got %d", f.iterations)
	case f.batch < 1:
		return fmt.Errorf("--batch must be at least 1, got %d", f.batch)
	case f.maxCases < 1:
		return fmt.Errorf("--max-cases must be at least 1, got %d", f.maxCases)
	case f.maxCalls < 0:
		return fmt.Errorf("--max-calls must be at least 0, got %d", f.maxCalls)
	case f.maxCost < 0:
		return fmt.Errorf("--max-cost must be at least 0, got %g", f.maxCost)
	case f.runs < 1 || f.runs > maxEvalRuns:
		return fmt.Errorf("--runs must be between 1 and %d, got %d", maxEvalRuns, f.runs)
	case f.parallel < 1 || f.parallel > maxEvalParallel:
		return fmt.Errorf("--parallel must be between 1 and %d, got %d", maxEvalParallel, f.parallel)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout must be positive, got %s", f.timeout)
	case f.sampler != "" && (len(cmdArgs) > 1 || len(f.validation) > 0 || len(f.plan.Metrics) > 0 || f.plan.Config != ""):
		return errors.New("--sampler-config replaces SET, --validation, --metrics and --config: use one or the other")
	}
	return nil
}

// readConfigs reads ADK's config files, and sets the selections. Flags on the command line
// come before the optimizer's config.
func (f *optimizeFlags) readConfigs(dir string, args []string) error {
	f.trainCases, f.validationSets = eval.ParseSelections(args), eval.ParseSelections(f.validation)
	f.optimizerConfig = &optimize.OptimizerConfig{}
	if f.sampler != "" {
		full, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if f.samplerConfig, err = optimize.ReadSamplerConfig(f.sampler, filepath.Base(full)); err != nil {
			return err
		}
		f.trainCases = []*eval.Selection{f.samplerConfig.Train()}
		f.validationSets = []*eval.Selection{f.samplerConfig.Validation()}
		f.plan.Config = f.sampler
		f.plan.Read = func(string) ([]byte, error) { return f.samplerConfig.EvalConfig, nil }
	}
	if f.optimizer != "" {
		var err error
		if f.optimizerConfig, err = optimize.ReadOptimizerConfig(f.optimizer); err != nil {
			return err
		}
		if n := f.optimizerConfig.MaxCaseRuns; n != nil && !f.load.Flags.Changed("max-cases") {
			f.maxCases = *n
		}
		if n := f.optimizerConfig.BatchSize; n != nil && !f.load.Flags.Changed("batch") {
			f.batch = *n
		}
	}
	return nil
}

func optimizeApp(ctx context.Context, env command.Env, f *optimizeFlags, args []string) error {
	if err := f.validateFlags(args); err != nil {
		return err
	}
	dir := args[0]
	if err := command.CheckApp(dir); err != nil {
		return err
	}
	if err := f.readConfigs(dir, args[1:]); err != nil {
		return planFailure(env, err)
	}
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return err
	}
	o := &optimization{env: env, flags: f, dir: dir, meter: &evalrun.CostMeter{Limit: f.maxCost, CallLimit: f.maxCalls}}
	o.meter.OnCallLimit = func(err *evalrun.CallsError) { o.stop.setOnce(err) }
	o.meter.OnLimit = func(err *evalrun.CostError) { o.stop.setOnce(err) }
	opts.WrapModel = func(llm model.LLM) model.LLM { return evalrun.WrapModel(o.meter.WrapModel(llm)) }
	o.loader = env.NewLoader(opts)
	return o.runSearch(ctx)
}

// An optimization is one search for a better instruction.
type optimization struct {
	env    command.Env
	flags  *optimizeFlags
	dir    string
	loader *loader.Loader
	meter  *evalrun.CostMeter
	stop   stopReason
	// instruction is the app's instruction, problems are the messages from check about the app.
	instruction *loader.Instruction
	problems    map[string]bool
}

// stopReason is the first limit that was reached. Model calls set it concurrently.
type stopReason struct {
	mu  sync.Mutex
	err error
}

func (s *stopReason) setOnce(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *stopReason) getReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (o *optimization) runSearch(ctx context.Context) error {
	train, validation, err := o.planJobs()
	if err != nil {
		return planFailure(o.env, err)
	}
	if err := o.readInstruction(ctx); err != nil {
		return err
	}
	proposer := cmp.Or(o.flags.model, o.flags.optimizerConfig.Model, eval.DefaultJudgeModel)
	models, release, ds := o.loader.OpenModels(ctx, o.dir, append(evalrun.ModelNames(append(train, validation...)), proposer))
	if err := o.env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if models == nil {
		return &command.ExitError{Code: command.ExitProblems, Err: errors.New("a --model or judge model has problems")}
	}
	defer release()
	ask, err := o.newProposer(models[proposer])
	if err != nil {
		return planFailure(o.env, err)
	}
	f := o.flags
	search := &optimize.Optimizer{
		Instruction: o.instruction.Text, Train: train, Validation: validation, Open: o.openCandidate, Ask: ask,
		Runner:     evalrun.Runner{Models: models, Runs: f.runs, Parallel: f.parallel, Timeout: f.timeout},
		Iterations: f.iterations, BatchSize: f.batch, MaxCaseRuns: f.maxCases, Seed: f.seed, Report: o.printStep, Stopped: o.findLimit,
	}
	result, err := search.Run(ctx)
	switch unpriced := o.meter.Unpriced(); {
	case ctx.Err() != nil:
		return command.FailWithf("interrupted: nothing was written")
	case f.maxCost > 0 && unpriced != "":
		return command.FailWithf("--max-cost requires prices, and model %s has none: give it a price under models: in app.yaml, or pass --prices", unpriced)
	case err != nil:
		return command.FailWith(err)
	}
	return o.reportResult(result)
}

// planJobs reads the sets to learn from and to validate with. Sets that are both have the
// same jobs, so that each case runs once.
func (o *optimization) planJobs() (train, validation []*evalrun.Job, err error) {
	f := o.flags
	if train, err = evalrun.Plan(o.dir, f.trainCases, &f.plan); err != nil || len(f.validationSets) == 0 {
		return train, train, err
	}
	if f.samplerConfig != nil && f.samplerConfig.IsOneSelection() {
		return train, train, nil
	}
	validation, err = evalrun.Plan(o.dir, f.validationSets, &f.plan)
	return train, validation, err
}

// readInstruction finds the instruction, and the problems that the app has without a change.
func (o *optimization) readInstruction(ctx context.Context) error {
	found, ds, err := o.loader.FindInstruction(ctx, o.dir, o.flags.agent)
	if err != nil {
		return command.FailWith(err)
	}
	if err := o.env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if found == nil {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", o.dir)}
	}
	o.instruction, o.problems = found, map[string]bool{}
	for _, d := range o.loader.Check(ctx, o.dir) {
		o.problems[d.Rule+" "+d.Message] = true
	}
	return nil
}

// newProposer returns the model that proposes instructions. Without a config, ADK's default
// model thinks as in ADK.
func (o *optimization) newProposer(llm model.LLM) (func(ctx context.Context, prompt string) (string, error), error) {
	config := &genai.GenerateContentConfig{}
	if raw := o.flags.optimizerConfig.ModelConfig; len(raw) > 0 {
		if err := eval.Decode(filepath.ToSlash(o.flags.optimizer), raw, config); err != nil {
			return nil, err
		}
	} else if o.flags.model == "" && o.flags.optimizerConfig.Model == "" {
		config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr[int32](10240)}
	}
	return func(ctx context.Context, prompt string) (string, error) {
		own := *config
		resp, err := model.Answer(ctx, llm, &model.Request{Config: &own, Origin: model.Origin{Agent: "optimizer", UserText: prompt, Turn: 1}})
		if err != nil {
			return "", err
		}
		return model.TextOf(resp.Content), nil
	}, nil
}

// openCandidate opens the app with another instruction in memory. One that adds a problem is
// rejected.
func (o *optimization) openCandidate(ctx context.Context, text string) (*runtime.App, error) {
	edited, err := o.instruction.ReplaceText(text)
	if err != nil {
		return nil, &optimize.RejectedError{Reason: err.Error()}
	}
	l := o.loader.WithFiles(o.dir, map[string][]byte{o.instruction.File: edited})
	for _, d := range l.Check(ctx, o.dir) {
		if !o.problems[d.Rule+" "+d.Message] {
			return nil, &optimize.RejectedError{Reason: d.Message + " [" + d.Rule + "]"}
		}
	}
	app, ds := l.Load(ctx, o.dir)
	if app == nil {
		return nil, ds.Err()
	}
	return app, nil
}

// findLimit returns the limit that was reached, or nil.
func (o *optimization) findLimit() error {
	if o.flags.maxCost > 0 && o.meter.Unpriced() != "" {
		return errors.New("a model has no price")
	}
	return o.stop.getReason()
}

func (o *optimization) printStep(s *optimize.Step) {
	if s.Iteration == 0 {
		fmt.Fprintf(o.env.Err, "present instruction: %s\n", s.Validation)
		return
	}
	fmt.Fprintf(o.env.Err, "iteration %d: ", s.Iteration)
	if s.Batch != nil {
		fmt.Fprintf(o.env.Err, "batch %s, was %s", s.Batch, s.ParentBatch)
	}
	switch {
	case s.Validation != nil:
		fmt.Fprintf(o.env.Err, "; validation %s\n", s.Validation)
	case s.Batch != nil:
		fmt.Fprintf(o.env.Err, "; rejected: %s\n", s.Rejected)
	case s.Instruction == "":
		fmt.Fprintf(o.env.Err, "%s\n", s.Rejected)
	default:
		fmt.Fprintf(o.env.Err, "rejected: %s\n", s.Rejected)
	}
}

func (o *optimization) reportResult(result *optimize.Result) error {
	if dir := o.flags.optimizerConfig.RunDir; dir != "" {
		if err := optimize.WriteResult(dir, result); err != nil {
			return command.FailWith(err)
		}
	}
	if result.Stopped != "" {
		fmt.Fprintf(o.env.Err, "stopped: %s\n", result.Stopped)
	}
	diff, err := o.writeProposal(result)
	if err != nil {
		return command.FailWith(err)
	}
	if o.flags.output == "json" {
		err = o.env.PrintJSON(struct {
			*optimize.Result
			Agent string  `json:"agent"`
			File  string  `json:"file"`
			Diff  string  `json:"diff,omitempty"`
			Calls int     `json:"modelCalls"`
			Cost  float64 `json:"costUSD"`
		}{result, o.instruction.Agent, o.shownFile(), diff, o.meter.Calls(), o.meter.Spent()})
	} else {
		_, err = o.env.Out.Write([]byte(diff))
	}
	if err != nil {
		return command.FailWith(err)
	}
	spent := fmt.Sprintf("%d case runs and %d model calls", result.CaseRuns, o.meter.Calls())
	if !result.Improved {
		if result.Before.Passed == result.Before.Cases {
			fmt.Fprintf(o.env.Err, "all cases pass: nothing to improve (%s)\n", spent)
		} else {
			fmt.Fprintf(o.env.Err, "no better instruction found after %s\n", spent)
		}
		return &command.ExitError{Code: command.ExitProblems}
	}
	fmt.Fprintf(o.env.Err, "instruction of agent %s: %s, was %s, after %s\n", o.instruction.Agent, result.After, result.Before, spent)
	if o.flags.write {
		fmt.Fprintf(o.env.Err, "written: %s\n", o.shownFile())
	}
	return nil
}

// writeProposal returns a better instruction's diff, and writes the file with --write.
func (o *optimization) writeProposal(result *optimize.Result) (string, error) {
	if !result.Improved {
		return "", nil
	}
	edited, err := o.instruction.ReplaceText(result.Instruction)
	if err != nil {
		return "", err
	}
	if o.flags.write {
		if err := o.instruction.WriteFile(o.dir, edited); err != nil {
			return "", err
		}
	}
	return textdiff.FormatDiff("a/"+o.shownFile(), "b/"+o.shownFile(), o.instruction.Source, edited), nil
}

// shownFile returns the file's path for the diff: from the working folder, or from the app's
// folder if the working folder does not contain it.
func (o *optimization) shownFile() string {
	file := filepath.Join(o.dir, filepath.FromSlash(o.instruction.File))
	full, err := filepath.Abs(file)
	work, workErr := filepath.Abs(".")
	if rel, relErr := filepath.Rel(work, full); err == nil && workErr == nil && relErr == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return o.instruction.File
}
