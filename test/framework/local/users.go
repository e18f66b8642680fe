package local

import (
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcp-ipam/ipam/workspaces"
)

// User can log in to a kcp with a token. Its rights are those granted to its name, and to all authenticated users.
type User struct {
	Name  string
	Token string
	// Group is a further group of the user. Default: none.
	Group string
}

// people are the users of a kcp or of a cluster, and an admin to whom no role and no policy refuses anything.
type people struct {
	known []User
	taken atomic.Int64 // how many were given out
	admin string       // the kubeconfig of the admin
	alone bool         // a cluster is one workspace, whatever it is called
}

// Kubeconfig returns the path of the kubeconfig of the admin.
func (p *people) Kubeconfig() string { return p.admin }

// Admin returns the access of the admin. For a kcp, it is to the workspace root.
func (p *people) Admin() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", p.admin)
}

// At returns the access of the admin to a workspace.
func (p *people) At(workspace string) (*rest.Config, error) {
	admin, err := p.Admin()
	if err != nil || p.alone {
		return admin, err
	}
	return workspaces.At(admin, workspace), nil
}

// As returns the access of a user to a workspace.
func (p *people) As(user User, workspace string) (*rest.Config, error) {
	admin, err := p.At(workspace)
	if err != nil {
		return nil, err
	}
	cfg := rest.AnonymousClientConfig(admin)
	cfg.BearerToken = user.Token
	return cfg, nil
}

// TakeUser gives out a user that nobody else has been given. It is safe for concurrent use.
func (p *people) TakeUser() (User, error) {
	n := int(p.taken.Add(1))
	if n > len(p.known) {
		return User{}, fmt.Errorf("all %d users of this kcp are taken", len(p.known))
	}
	return p.known[n-1], nil
}

// users reads the users from a token file of a server. If there is no file, it makes one with the first users, who
// have no token yet, and n others. The server reads the file only when it starts.
func users(file string, n int, first ...User) ([]User, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return makeUsers(file, n, first)
	}
	if err != nil {
		return nil, err
	}
	lines := csv.NewReader(strings.NewReader(string(data)))
	lines.FieldsPerRecord = -1 // the record of a user without a group has one field less
	records, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("users in %s: %w", file, err)
	}
	found := make([]User, 0, len(records))
	for _, record := range records {
		user := User{Token: record[0], Name: record[1]}
		if len(record) > 3 {
			user.Group = record[3]
		}
		found = append(found, user)
	}
	return found, nil
}

func makeUsers(file string, n int, first []User) ([]User, error) {
	made := slices.Clone(first)
	for i := range n {
		made = append(made, User{Name: fmt.Sprintf("user-%d", i+1)})
	}
	var lines strings.Builder
	for i := range made {
		made[i].Token = rand.Text()
		record := []string{made[i].Token, made[i].Name, made[i].Name}
		if made[i].Group != "" {
			record = append(record, made[i].Group)
		}
		fmt.Fprintln(&lines, strings.Join(record, ","))
	}
	return made, os.WriteFile(file, []byte(lines.String()), 0o600)
}
