package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/doctor"
)

func newDoctorCommand(env command.Env) *cobra.Command {
	var f serveFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor DIR...",
		Short: "Check what serve needs: settings, apps, database and this machine",
		Long: `Doctor checks what serve would meet with the same flags, file of --config and
environment: the settings, the apps and the keys of their models, the session
database and its clock, notifications of changed files, and the limits of this
machine. Each finding has what to do. It serves nothing and migrates nothing. The
exit status is 1 when serve would not work.`,
		Args:    command.RequireArgs(0, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			dirs, err := f.resolveSettings(cmd, dirs)
			if err != nil {
				return err
			}
			report, err := examineHost(cmd.Context(), env, &f, dirs)
			if err != nil {
				return err
			}
			return printFindings(env, report, asJSON)
		},
	}
	f.registerFlags(env, cmd.Flags())
	command.RegisterOutput(cmd.Flags(), &asJSON, false)
	return cmd
}

// examineHost makes all checks. An error is that of a setting, in serve's words.
func examineHost(ctx context.Context, env command.Env, f *serveFlags, dirs []string) (*doctor.Report, error) {
	if err := f.validateLimits(); err != nil {
		return nil, err
	}
	logger, err := f.observe.newLogger(env)
	if err != nil {
		return nil, err
	}
	opts, err := f.serverOptions()
	if err != nil {
		return nil, err
	}
	defer opts.Auth.Close()
	m := &serveMain{flags: f, dirs: dirs, env: env, logger: logger}
	load, _, err := m.loadOptions()
	if err != nil {
		return nil, err
	}
	r := &doctor.Report{}
	r.CheckApps(ctx, dirs, func(missing func(string, loader.ModelUse, spec.Diagnostic)) *loader.Loader {
		load.MissingKey = missing
		return env.NewLoader(load)
	})
	if !strings.HasPrefix(f.SessionDB, "memory:") && !storeurl.HasNoLeases(f.Schemes, f.SessionDB) {
		r.CheckDatabase(ctx, env.Engines, f.SessionDB)
	}
	if file, ok := strings.CutPrefix(f.SessionDB, "sqlite:///"); ok {
		r.CheckDisk(file)
	}
	r.CheckNotifications(dirs)
	memory, _ := findCgroupLimit(os.DirFS("/"))
	r.CheckMachine(memory)
	return r, nil
}

// printFindings prints a line for each finding, and below it what to do.
func printFindings(env command.Env, r *doctor.Report, asJSON bool) error {
	if asJSON {
		if err := env.PrintJSON(r.Findings); err != nil {
			return err
		}
	} else {
		styles := terminal.StylesOf(env.Out)
		roles := map[doctor.State]terminal.Role{doctor.OK: terminal.Good, doctor.Warning: terminal.Warning, doctor.Error: terminal.Bad}
		var text strings.Builder
		for _, f := range r.Findings {
			text.WriteString(styles.Format(roles[f.State], padText(string(f.State), len(doctor.Warning))) + "  " + padText(f.Check, len("notifications")) + "  " + terminal.CleanLine(f.Text) + "\n")
			if f.Hint != "" {
				text.WriteString(strings.Repeat(" ", len(doctor.Warning)+len("notifications")+4) + terminal.CleanLine(f.Hint) + "\n")
			}
		}
		if err := terminal.Print(env.Out, text.String()); err != nil {
			return command.FailWith(err)
		}
	}
	if r.Worst() == doctor.Error {
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}

func padText(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len(text)))
}
