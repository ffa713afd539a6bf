import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;

/** Uses a table of Frond from Java. The argument is the server's port. Prints "passed". */
public class Client {
    private static void expect(Object got, Object wanted) {
        if (!wanted.equals(got)) throw new AssertionError(got + ", expected " + wanted);
    }

    private static long number(Statement statement, String query) throws SQLException {
        try (ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String options = "?useServerPrepStmts=true&rewriteBatchedStatements=false&serverTimezone=UTC";
        String url = "jdbc:mariadb://127.0.0.1:" + arguments[0] + "/" + options;
        try (Connection connection = DriverManager.getConnection(url, "client", "secret");
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE DATABASE java");
            statement.execute("USE java");
            statement.execute("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL,"
                    + " amount DECIMAL(20, 6), at DATETIME(6), data BLOB, UNIQUE (name)) ENGINE=FROND");
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            String insert = "INSERT INTO t (name, amount, at, data) VALUES (?, ?, ?, ?)";
            Timestamp at = Timestamp.valueOf("2024-02-29 12:34:56.789012");
            try (PreparedStatement rows = connection.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
                for (int row = 0; row < 100; row++) {
                    rows.setString(1, "naïve " + row);
                    rows.setBigDecimal(2, new BigDecimal(row).movePointLeft(6));
                    rows.setTimestamp(3, at);
                    rows.setBytes(4, new byte[] {0, (byte) row, -1});
                    rows.addBatch();
                }
                expect(rows.executeBatch().length, 100);
            }
            Savepoint before = connection.setSavepoint("before");
            expect(statement.executeUpdate("DELETE FROM t WHERE id > 10"), 90);
            connection.rollback(before);
            connection.commit();
            String select = "SELECT amount, at, data FROM t WHERE name = ?";
            try (PreparedStatement query = connection.prepareStatement(select)) {
                query.setString(1, "naïve 42");
                try (ResultSet rows = query.executeQuery()) {
                    expect(rows.next(), true);
                    expect(rows.getBigDecimal(1), new BigDecimal("0.000042"));
                    expect(rows.getTimestamp(2), at);
                    expect(rows.getBytes(3)[1], (byte) 42);
                    expect(rows.next(), false);
                }
            }
            try {
                statement.executeUpdate("INSERT INTO t (name) VALUES ('naïve 1')");
                throw new AssertionError("a duplicate was inserted");
            } catch (SQLException error) {
                expect(error.getErrorCode(), 1062);
                expect(error.getSQLState(), "23000");
            }
            connection.rollback();
            expect(number(statement, "SELECT COUNT(*) FROM t"), 100L);
            // An updatable result set.
            connection.setAutoCommit(true);
            try (Statement updating = connection.createStatement(
                            ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                    ResultSet rows = updating.executeQuery("SELECT id, name FROM t WHERE id <= 3")) {
                while (rows.next()) {
                    rows.updateString("name", "changed " + rows.getLong("id"));
                    rows.updateRow();
                }
            }
            expect(number(statement, "SELECT COUNT(*) FROM t WHERE name LIKE 'changed _'"), 3L);
        }
        System.out.println("passed");
    }
}
