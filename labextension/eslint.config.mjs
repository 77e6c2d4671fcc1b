/** ESLint: the rules of typescript-eslint that use types. Formatting is not checked here. */
import tseslint from 'typescript-eslint';

export default tseslint.config(
  // records.ts is generated from the Python records.
  { ignores: ['build/', 'dist/', 'lib/', 'node_modules/', 'src/records.ts'] },
  {
    files: ['src/**/*.{ts,tsx}', 'tests/**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: ['tsconfig.json', 'tsconfig.tests.json'], tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      'no-console': ['error', { allow: ['warn', 'error'] }],
      // Lumino's signals are connected with a method and its object: signal.connect(this._onChange, this).
      '@typescript-eslint/unbound-method': 'off',
      // Methods are async because an interface of JupyterLab or Colab wants a promise.
      '@typescript-eslint/require-await': 'off',
      // Fields of kernel messages are unknown; String() shows whatever they are.
      '@typescript-eslint/no-base-to-string': 'off',
      // An underscore marks what is left out on purpose.
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }]
    }
  },
  {
    files: ['tests/**/*.ts'],
    // test() of node:test returns a promise that its runner waits for.
    rules: { '@typescript-eslint/no-floating-promises': 'off' }
  }
);
