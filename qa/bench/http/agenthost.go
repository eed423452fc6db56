package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/a2aserver"
)

// openAgenthost returns agenthost's server as configured by the serve command, with
// metrics and without traces, which serve keeps with --dev only.
func openAgenthost(ctx context.Context, at *serverConfig) (http.Handler, io.Closer, error) {
	st, err := storeurl.Open(ctx, cmp.Or(at.URL, "memory:"), &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"})
	if err != nil {
		return nil, nil, err
	}
	root := runtime.NewLLM(app, &runtime.LLMOptions{
		Model: ourModel{at.Script}, Instruction: runtime.NewInstruction(instruction, nil),
	})
	a, err := runtime.NewApp(app, root, nil)
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	metrics := server.NewMetrics("bench")
	host := runtime.NewHost(st, &runtime.Options{Logger: logger, Observe: metrics.Observe})
	host.Swap(a)
	return server.New(host, &server.Options{
		Logger: logger, Metrics: metrics, Extensions: []func(*server.Services) *server.Extension{a2aserver.Extend(&a2aserver.Options{All: true})},
	}), hostCloser{host, st}, nil
}

// hostCloser closes a host and its store.
type hostCloser struct {
	host  *runtime.Host
	store *store.Store
}

// Close closes both.
func (c hostCloser) Close() error {
	c.host.Close()
	return c.store.Close()
}

// ourModel answers with a script.
type ourModel struct{ script script }

// Name returns a name that no real model has.
func (ourModel) Name() string { return "script" }

// Generate streams the script. Requests without streaming get no chunks.
func (m ourModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		err := m.script.streamText(ctx, func(text string, partial bool) bool {
			if partial && !req.Stream {
				return true
			}
			r := &model.Response{Content: model.ModelText(text), Partial: partial}
			if !partial {
				r.FinishReason = genai.FinishReasonStop
			}
			return yield(r, nil)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// databaseSchemes returns all databases' schemes.
func databaseSchemes() []storeurl.Scheme {
	return sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}.Schemes()
}
