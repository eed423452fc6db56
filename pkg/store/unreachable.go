package store

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// unreachable is the error of a server that could not be reached when its
// database was opened, with what may be wrong.
func unreachable(err error) error {
	return fmt.Errorf("the database cannot be reached: %s; %s", connectReason(err), connectHint(err))
}

// connectReason is the cause in one line. PostgreSQL's driver has a line for each
// address that it tried, behind the name of the user.
func connectReason(err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &network):
		return network.Error()
	default:
		return strings.Join(strings.Fields(err.Error()), " ")
	}
}

func connectHint(err error) string {
	code, number := sqlState(err), mysqlCode(err)
	switch {
	case code == "3D000" || number == 1049:
		return "create the database first, or name one that exists in the URL"
	case code == "28P01" || code == "28000" || number == 1044 || number == 1045:
		return "check user and password in the URL, and what the server lets them use"
	case code != "" || number != 0:
		return "look at the server's log"
	default:
		return "check that the server runs, and host and port in the URL"
	}
}
